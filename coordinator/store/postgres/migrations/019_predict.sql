-- When people come to their workspaces, and which ones were started ahead of them (SPEC 15). Triggers keep both, so that they
-- are true whatever process writes a use, and whether or not anything is predicted from them yet.

-- First uses by a person after a pause of four hours: coming in the morning is one, coming back from lunch is not. No day
-- or time zone is in it.
CREATE TABLE arrivals (
    workspace_id uuid NOT NULL,
    at           timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, at)
);
CREATE INDEX arrivals_age ON arrivals (at);

-- Starts ahead. One of a workspace and a day can be made once.
CREATE TABLE predictions (
    workspace_id  uuid NOT NULL,
    -- That of the time zone of the setting.
    day           date NOT NULL,
    owner_user_id uuid NOT NULL,
    at            timestamptz NOT NULL DEFAULT now(),
    -- When a person came, or when it was given up: it slept, failed or was deleted. NULL before that.
    ended_at      timestamptz,
    opened        boolean NOT NULL DEFAULT false,
    PRIMARY KEY (workspace_id, day)
);
CREATE INDEX predictions_day ON predictions (day);

ALTER TABLE workspaces
    -- Writer: the service layer. Its owner lets it be started ahead.
    ADD COLUMN start_ahead boolean NOT NULL DEFAULT true,
    -- Writer: the service layer with the start, a trigger with the end. It was started ahead of a person who usually comes until
    -- then and who has not come yet; NULL otherwise.
    ADD COLUMN ahead_until timestamptz;

CREATE FUNCTION note_arrival() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO arrivals (workspace_id, at) VALUES (NEW.id, NEW.last_input_at) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER arrival AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN (NEW.last_input_at - interval '4 hours' > COALESCE(OLD.last_input_at, '-infinity'))
    EXECUTE FUNCTION note_arrival();

CREATE FUNCTION end_ahead() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    came CONSTANT boolean := NEW.last_input_at IS DISTINCT FROM OLD.last_input_at;
BEGIN
    UPDATE predictions SET opened = came, ended_at = GREATEST(at, CASE WHEN came THEN NEW.last_input_at ELSE now() END)
    WHERE workspace_id = NEW.id AND ended_at IS NULL;
    NEW.ahead_until := NULL;
    RETURN NEW;
END $$;
-- Its name makes it fire ahead of announcement and of revision_ahead.
CREATE TRIGGER ahead_ends BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN (OLD.ahead_until IS NOT NULL AND (NEW.last_input_at IS DISTINCT FROM OLD.last_input_at
        OR NEW.desired_state <> 'RUNNING' OR NEW.deleted_at IS NOT NULL OR NEW.phase = 'ERROR'))
    EXECUTE FUNCTION end_ahead();

-- Pages show it.
CREATE TRIGGER revision_ahead BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.ahead_until, OLD.start_ahead) IS DISTINCT FROM (NEW.ahead_until, NEW.start_ahead))
    EXECUTE FUNCTION next_revision();
