-- Users, sessions, workspaces and the leader's lock (SPEC 4).

CREATE TABLE users (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    username      text NOT NULL CHECK (char_length(username) BETWEEN 1 AND 255),
    -- argon2id in PHC string form; NULL for users of another identity provider,
    -- who cannot sign in with a password.
    password_hash text,
    role          text NOT NULL DEFAULT 'user' CHECK (role IN ('user', 'admin')),
    disabled_at   timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now()
);
-- "Ann" and "ann" must not be two users.
CREATE UNIQUE INDEX users_username ON users (lower(username));

CREATE TABLE sessions (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    -- SHA-256 of the token, so that reading this table does not allow to sign in.
    token_hash   bytea NOT NULL UNIQUE CHECK (octet_length(token_hash) = 32),
    user_id      uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    -- A workspace session (host mode) depends on a main session, ends with it,
    -- and is valid for that one workspace only.
    parent_id    uuid REFERENCES sessions ON DELETE CASCADE,
    workspace_id uuid,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL,
    CHECK ((parent_id IS NULL) = (workspace_id IS NULL))
);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE tickets (
    ticket_hash  bytea PRIMARY KEY CHECK (octet_length(ticket_hash) = 32),
    session_id   uuid NOT NULL REFERENCES sessions ON DELETE CASCADE,
    workspace_id uuid NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX tickets_session ON tickets (session_id);
CREATE INDEX tickets_expiry ON tickets (expires_at);

CREATE TABLE system_locks (
    lock_name   text PRIMARY KEY,
    holder_id   text NOT NULL,
    -- Grows with every term of a leader; each write of the controller is
    -- conditional on its own epoch (SPEC 5).
    epoch       bigint NOT NULL,
    acquired_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE workspaces (
    id               uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_user_id    uuid NOT NULL REFERENCES users,
    name             text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 255),
    description      text,
    memo             text,
    image_ref        text,
    instance_backend text NOT NULL CHECK (instance_backend IN ('docker', 'kubernetes')),
    storage_backend  text NOT NULL,
    home_store_key   text NOT NULL,
    home_ctx         jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(home_ctx) = 'object'),
    conditions       jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(conditions) = 'object'),
    observed_at      timestamptz,
    phase            text NOT NULL DEFAULT 'PENDING' CHECK (phase IN
        ('PENDING', 'ARCHIVED', 'STANDBY', 'RUNNING', 'ERROR', 'DELETING', 'DELETED')),
    phase_changed_at timestamptz NOT NULL DEFAULT now(),
    operation        text NOT NULL DEFAULT 'NONE' CHECK (operation IN
        ('NONE', 'CREATE_EMPTY_ARCHIVE', 'PROVISIONING', 'RESTORING', 'STARTING', 'STOPPING', 'ARCHIVING', 'DELETING')),
    op_started_at    timestamptz,
    archive_op_id    uuid,
    archive_key      text,
    endpoint         text,
    error_reason     text,
    error_message    text,
    error_count      integer NOT NULL DEFAULT 0 CHECK (error_count >= 0),
    desired_state    text NOT NULL DEFAULT 'RUNNING' CHECK (desired_state IN
        ('ARCHIVED', 'STANDBY', 'RUNNING', 'DELETED')),
    last_access_at   timestamptz,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    deleted_at       timestamptz,

    -- The two rules below are columns instead of conditions in the queries. So each
    -- is written once, and ANALYZE counts how few rows meet it; otherwise the query
    -- planner would expect such a disjunction to select most of the table and would
    -- read all of it.

    -- What every tick must observe. Deleted ones count until nothing is left of them
    -- (SPEC 12.7). In ERROR only the recovered ones (error_reason is NULL) and those
    -- with a reason that is not terminal; package workspace has the same rule. The
    -- running ones are observed because containers can exit by themselves.
    watched boolean NOT NULL GENERATED ALWAYS AS (
        phase <> 'DELETED' AND (
            operation <> 'NONE'
            OR deleted_at IS NOT NULL
            OR phase = 'RUNNING'
            OR (phase <> 'ERROR' AND phase <> desired_state)
            OR (phase = 'ERROR' AND (error_reason IS NULL OR error_reason IN ('ActionFailed', 'Unreachable')))
        )
    ) STORED,
    -- What the limits count (SPEC 5): phase or desired state RUNNING.
    counted boolean NOT NULL GENERATED ALWAYS AS (
        deleted_at IS NULL AND (phase = 'RUNNING' OR desired_state = 'RUNNING')
    ) STORED,

    CONSTRAINT error_has_no_operation CHECK (phase <> 'ERROR' OR operation = 'NONE'),
    CONSTRAINT deleted_is_wished CHECK ((deleted_at IS NULL) = (desired_state <> 'DELETED'))
) WITH (fillfactor = 80);

CREATE INDEX workspaces_watched ON workspaces (id) WHERE watched;
-- One index for both limits: per user by its key, globally by its size.
CREATE INDEX workspaces_counted ON workspaces (owner_user_id) WHERE counted;
CREATE INDEX workspaces_idle ON workspaces (GREATEST(last_access_at, phase_changed_at))
    WHERE phase = 'RUNNING' AND operation = 'NONE' AND deleted_at IS NULL;
CREATE INDEX workspaces_asleep ON workspaces (phase_changed_at)
    WHERE phase = 'STANDBY' AND operation = 'NONE' AND deleted_at IS NULL;
CREATE INDEX workspaces_failed ON workspaces (phase_changed_at)
    WHERE phase = 'ERROR' AND deleted_at IS NULL;
CREATE INDEX workspaces_owned ON workspaces (owner_user_id, created_at DESC, id DESC)
    WHERE deleted_at IS NULL;

CREATE FUNCTION touch_updated_at() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := now();
    RETURN NEW;
END $$;

CREATE TRIGGER updated_at BEFORE UPDATE ON users FOR EACH ROW EXECUTE FUNCTION touch_updated_at();
CREATE TRIGGER updated_at BEFORE UPDATE ON workspaces FOR EACH ROW EXECUTE FUNCTION touch_updated_at();

-- Notifications carry ids, not rows: NOTIFY is limited to 8,000 bytes (SPEC 4).
CREATE FUNCTION notify_workspace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_ARGV[0], json_build_object('id', NEW.id, 'owner', NEW.owner_user_id)::text);
    RETURN NULL;
END $$;

CREATE TRIGGER sse_insert AFTER INSERT ON workspaces
    FOR EACH ROW EXECUTE FUNCTION notify_workspace('ws_sse');
CREATE TRIGGER sse_update AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.phase, OLD.operation, OLD.error_reason, OLD.name, OLD.description, OLD.memo, OLD.endpoint)
        IS DISTINCT FROM
        (NEW.phase, NEW.operation, NEW.error_reason, NEW.name, NEW.description, NEW.memo, NEW.endpoint))
    EXECUTE FUNCTION notify_workspace('ws_sse');
CREATE TRIGGER wake_insert AFTER INSERT ON workspaces
    FOR EACH ROW EXECUTE FUNCTION notify_workspace('ws_wake');
-- A recovery clears the error; the controller must then reconcile.
CREATE TRIGGER wake_update AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN (OLD.desired_state IS DISTINCT FROM NEW.desired_state
        OR (OLD.error_reason IS NOT NULL AND NEW.error_reason IS NULL AND NEW.phase = 'ERROR'))
    EXECUTE FUNCTION notify_workspace('ws_wake');
CREATE TRIGGER deleted_update AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL)
    EXECUTE FUNCTION notify_workspace('ws_deleted');

CREATE FUNCTION notify_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('session_revoked', json_build_object('session', OLD.id, 'owner', OLD.user_id)::text);
    RETURN NULL;
END $$;

-- The end of an expired session is not reported: caches know when it expires.
CREATE TRIGGER session_revoked AFTER DELETE ON sessions FOR EACH ROW
    WHEN (OLD.expires_at > now())
    EXECUTE FUNCTION notify_session();
