-- A workspace gives its place away while its container is frozen, and not when it is to be: some engines cannot freeze one.
-- On its way to sleep it runs no more either, so it takes no place while it stops.

-- Generated columns cannot be changed in place.
DROP INDEX workspaces_counted;
ALTER TABLE workspaces DROP COLUMN counted;
ALTER TABLE workspaces
    -- What the limits of running workspaces count: none that is frozen, unless it is to go on.
    ADD COLUMN counted boolean NOT NULL GENERATED ALWAYS AS (
        deleted_at IS NULL AND (phase <> 'ERROR' OR error_reason IS NULL)
        AND (phase = 'RUNNING' OR desired_state = 'RUNNING')
        AND NOT (conditions #>> '{infra.dozing,status}' IS NOT DISTINCT FROM 'True'
            AND (doze_at IS NOT NULL OR desired_state <> 'RUNNING'))
    ) STORED;
CREATE INDEX workspaces_counted ON workspaces (owner_user_id) WHERE counted;

-- Browsers learn that it is frozen, and that it goes on.
CREATE TRIGGER revision_frozen BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.conditions #>> '{infra.dozing,status}') IS DISTINCT FROM (NEW.conditions #>> '{infra.dozing,status}'))
    EXECUTE FUNCTION next_revision();
