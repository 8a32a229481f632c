-- How many workspaces there are of each kind (SPEC 4), for the metrics. Triggers keep it, so that it is true whatever process writes
-- and wherever it is killed, and nothing needs to read all workspaces.

-- The sum of n of a kind is how many there are. Each change only adds rows: none waits for another, or can deadlock with it.
CREATE TABLE workspace_counts (
    -- The phase, the operation, the reason why it waits, that of its error, and whether it dozes; empty for none.
    kind text[] NOT NULL,
    n    bigint NOT NULL
);

-- The kind of a workspace. A deleted one counts as DELETING while something of it is left to remove, and then as DELETED.
CREATE FUNCTION workspace_kind(w workspaces) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY[CASE WHEN w.deleted_at IS NULL THEN w.phase WHEN w.phase = 'DELETED' OR w.awaits_gc THEN 'DELETED' ELSE 'DELETING' END,
        w.operation,
        COALESCE(w.waiting ->> 'reason', ''), COALESCE(w.error_reason, ''),
        CASE WHEN w.doze_at IS NOT NULL AND w.conditions #>> '{infra.dozing,status}' = 'True' THEN 'dozing' ELSE '' END]
$$;

CREATE FUNCTION count_workspace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO workspace_counts (kind, n) VALUES (workspace_kind(NEW), 1);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO workspace_counts (kind, n) VALUES (workspace_kind(OLD), -1);
    ELSE
        INSERT INTO workspace_counts (kind, n) VALUES (workspace_kind(OLD), -1), (workspace_kind(NEW), 1);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER count_one AFTER INSERT OR DELETE ON workspaces FOR EACH ROW EXECUTE FUNCTION count_workspace();
-- What it compares is what the kind is made of.
CREATE TRIGGER count_change AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.phase, OLD.operation, OLD.error_reason, OLD.deleted_at IS NULL, OLD.awaits_gc, OLD.doze_at IS NULL,
            OLD.waiting ->> 'reason', OLD.conditions #>> '{infra.dozing,status}')
        IS DISTINCT FROM
        (NEW.phase, NEW.operation, NEW.error_reason, NEW.deleted_at IS NULL, NEW.awaits_gc, NEW.doze_at IS NULL,
            NEW.waiting ->> 'reason', NEW.conditions #>> '{infra.dozing,status}'))
    EXECUTE FUNCTION count_workspace();

INSERT INTO workspace_counts (kind, n) SELECT workspace_kind(w), count(*) FROM workspaces w GROUP BY 1;

-- Reports add up millions of days by workspace, on all processors of the server (SPEC 14).
ALTER FUNCTION usage_micros PARALLEL SAFE;
CREATE STATISTICS usage_days_groups (ndistinct) ON workspace_id, owner_user_id, phase FROM usage_days;
