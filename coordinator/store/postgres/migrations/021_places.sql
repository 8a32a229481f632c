-- A workspace that counts against the limits of running ones holds a place (SPEC 5). Only a statement that has checked the limits
-- takes one. So the column is no longer derived from the others, whose changes would bring a place back as a side effect.

ALTER TABLE workspaces ALTER COLUMN counted DROP EXPRESSION, ALTER COLUMN counted SET DEFAULT false;

-- Replaces end_doze: the end of a doze needs a place.
DROP TRIGGER doze_ends ON workspaces;
DROP FUNCTION end_doze();

-- A statement that takes a place for a workspace that is to run already sets counted. A start, a creation, an undeletion and a
-- recovery take one as such, also those of an older release: each checks the limits. This trigger cannot check them. It would
-- have to wait for their lock while it holds the row, and a start waits for the row while it holds the lock.
CREATE FUNCTION hold_place() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    frozen CONSTANT boolean := (NEW.conditions #>> '{infra.dozing,status}') IS NOT DISTINCT FROM 'True';
    failed CONSTANT boolean := NEW.phase = 'ERROR' AND NEW.error_reason IS NOT NULL;
    thawed boolean := false;
BEGIN
    -- A use ends a doze that was not known when the doze was decided, and so does whatever else happens to the workspace.
    IF TG_OP = 'UPDATE' AND NEW.doze_at IS NOT NULL
        AND (OLD.phase, OLD.operation, OLD.desired_state, OLD.deleted_at, OLD.last_access_at, OLD.keep_awake_until)
        IS DISTINCT FROM (NEW.phase, NEW.operation, NEW.desired_state, NEW.deleted_at, NEW.last_access_at, NEW.keep_awake_until) THEN
        NEW.doze_at := NULL;
        thawed := (OLD.phase, OLD.operation, OLD.desired_state, OLD.deleted_at)
            IS NOT DISTINCT FROM (NEW.phase, NEW.operation, NEW.desired_state, NEW.deleted_at);
    END IF;
    CASE
        -- It gives its place up.
        WHEN NEW.deleted_at IS NOT NULL OR failed OR 'RUNNING' NOT IN (NEW.phase, NEW.desired_state)
            OR frozen AND (NEW.doze_at IS NOT NULL OR NEW.desired_state <> 'RUNNING') THEN
            NEW.counted := false;
        -- It takes one as such. A recovery clears the error and leaves the phase to the controller.
        WHEN TG_OP = 'INSERT' OR NEW.desired_state = 'RUNNING' AND OLD.desired_state <> 'RUNNING' OR OLD.deleted_at IS NOT NULL
            OR OLD.phase = 'ERROR' AND OLD.error_reason IS NOT NULL AND NEW.phase = 'ERROR' THEN
            NEW.counted := true;
        -- It would run without one: a doze has ended, or an error by itself.
        WHEN NOT NEW.counted AND NEW.desired_state = 'RUNNING' AND NEW.doze_at IS NULL THEN
            NEW.desired_state := 'STANDBY';
            INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, message, cause)
            VALUES (NEW.id, 'desired_state', 'RUNNING', 'STANDBY', 'no place was free for it to run', 'limits');
            thawed := false;
        ELSE
    END CASE;
    IF thawed THEN
        INSERT INTO workspace_history (workspace_id, kind, cause) VALUES (NEW.id, 'thawed', 'gateway');
    END IF;
    RETURN NEW;
END $$;
-- Its name makes it fire ahead of all others: they are about the desired state that it leaves.
CREATE TRIGGER admission_insert BEFORE INSERT ON workspaces FOR EACH ROW EXECUTE FUNCTION hold_place();
CREATE TRIGGER admission BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.phase, OLD.operation, OLD.desired_state, OLD.deleted_at, OLD.last_access_at, OLD.keep_awake_until, OLD.doze_at,
        OLD.error_reason, OLD.counted, OLD.conditions #>> '{infra.dozing,status}')
        IS DISTINCT FROM
        (NEW.phase, NEW.operation, NEW.desired_state, NEW.deleted_at, NEW.last_access_at, NEW.keep_awake_until, NEW.doze_at,
        NEW.error_reason, NEW.counted, NEW.conditions #>> '{infra.dozing,status}'))
    EXECUTE FUNCTION hold_place();
