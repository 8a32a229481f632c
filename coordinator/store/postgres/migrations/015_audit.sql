-- Who has asked for what, from where (SPEC 13). What the system does by itself stands in workspace_history. Each entry
-- is written by the statement that makes the change, so that neither exists without the other.
CREATE TABLE audit_log (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT now(),
    action         text NOT NULL,
    -- "done", or the type of the problem with which it was refused.
    outcome        text NOT NULL DEFAULT 'done',
    -- Who: {kind, id, name, token_id, token_name, through, address, host, request}. Names are kept: users can go.
    actor          jsonb NOT NULL CHECK (jsonb_typeof(actor) = 'object'),
    actor_id       uuid GENERATED ALWAYS AS ((actor ->> 'id')::uuid) STORED,
    -- Which workspace it concerns, and which user: the owner of the workspace, or the user who is changed.
    workspace_id   uuid,
    workspace_name text,
    user_id        uuid,
    user_name      text,
    details        jsonb CHECK (jsonb_typeof(details) = 'object')
);
CREATE INDEX audit_log_age ON audit_log (at, id);
CREATE INDEX audit_log_action ON audit_log (action, at, id);
CREATE INDEX audit_log_workspace ON audit_log (workspace_id, at, id) WHERE workspace_id IS NOT NULL;
CREATE INDEX audit_log_user ON audit_log (user_id, at, id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_log_actor ON audit_log (actor_id, at, id) WHERE actor_id IS NOT NULL;

-- Adds to an actor the names that its ids have at this moment.
CREATE FUNCTION audit_actor(by jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_strip_nulls(by || jsonb_build_object(
        'name', COALESCE(by ->> 'name', (SELECT username FROM users WHERE id = (by ->> 'id')::uuid)),
        'token_name', (SELECT name FROM sessions WHERE id = (by ->> 'token_id')::uuid)))
$$;
