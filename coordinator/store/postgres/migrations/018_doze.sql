-- Workspaces that doze: idle, with a container that is frozen (SPEC 6).

-- Generated columns cannot be changed in place.
DROP INDEX workspaces_counted;
ALTER TABLE workspaces DROP COLUMN counted;
ALTER TABLE workspaces
    -- Writers: the TTL runner, and the trigger and the service layer that end it. Since when its container is to be
    -- frozen; NULL while it is to go on.
    ADD COLUMN doze_at timestamptz,
    -- What the limits of running workspaces count: as before, but none that dozes.
    ADD COLUMN counted boolean NOT NULL GENERATED ALWAYS AS (
        deleted_at IS NULL AND (phase <> 'ERROR' OR error_reason IS NULL)
        AND (phase = 'RUNNING' OR desired_state = 'RUNNING') AND doze_at IS NULL
    ) STORED;
CREATE INDEX workspaces_counted ON workspaces (owner_user_id) WHERE counted;
-- What the limits of dozing ones count.
CREATE INDEX workspaces_dozing ON workspaces (owner_user_id) WHERE doze_at IS NOT NULL;

-- dozed: it was idle, and its container is frozen; thawed: somebody wants it again.
ALTER TABLE workspace_history DROP CONSTRAINT workspace_history_kind_check;
ALTER TABLE workspace_history ADD CONSTRAINT workspace_history_kind_check CHECK (kind IN ('created', 'phase', 'operation',
    'error', 'waiting', 'desired_state', 'deleted', 'undeleted', 'recovered', 'collected', 'reverting', 'reverted',
    'dozed', 'thawed'));

-- A use ends it that the one who let it doze did not know of, and so does whatever else happens to the workspace.
CREATE FUNCTION end_doze() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.doze_at := NULL;
    IF (OLD.phase, OLD.operation, OLD.desired_state, OLD.deleted_at)
        IS NOT DISTINCT FROM (NEW.phase, NEW.operation, NEW.desired_state, NEW.deleted_at) THEN
        INSERT INTO workspace_history (workspace_id, kind, cause) VALUES (NEW.id, 'thawed', 'gateway');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER doze_ends BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN (NEW.doze_at IS NOT NULL
        AND (OLD.phase, OLD.operation, OLD.desired_state, OLD.deleted_at, OLD.last_access_at, OLD.keep_awake_until)
        IS DISTINCT FROM (NEW.phase, NEW.operation, NEW.desired_state, NEW.deleted_at, NEW.last_access_at, NEW.keep_awake_until))
    EXECUTE FUNCTION end_doze();

-- Gateways, browsers and the controller learn of it at once.
CREATE TRIGGER revision_doze BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN (OLD.doze_at IS DISTINCT FROM NEW.doze_at)
    EXECUTE FUNCTION next_revision();
CREATE TRIGGER wake_doze AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN (OLD.doze_at IS DISTINCT FROM NEW.doze_at)
    EXECUTE FUNCTION notify_workspace('ws_wake');

-- What each process knows of the schema. While one writes that does not know of dozing, and so would neither wake what
-- it serves nor thaw what it leads, nothing dozes.
ALTER TABLE activity_writers ADD COLUMN knows integer NOT NULL DEFAULT 0;
ALTER TABLE activity_writers ALTER COLUMN knows
    SET DEFAULT COALESCE(NULLIF(current_setting('codehub.schema', true), '')::integer, 0);
