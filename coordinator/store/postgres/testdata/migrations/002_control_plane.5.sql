-- Identity, history, revisions, waiting, recovery, undelete, shards (SPEC 2 to 7).

-- What this installation has recorded about itself and its servers (SPEC 2).
-- 'database' is an id of this database, which the marker object in the bucket repeats.
-- 'backend' and 'bucket' are written by the first leader that sees them.
CREATE TABLE system_identity (
    resource    text PRIMARY KEY CHECK (resource IN ('database', 'backend', 'bucket')),
    identity    text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    -- Another identity that was seen instead; NULL while the recorded one is seen.
    found       text,
    found_at    timestamptz,
    -- The found identity that an administrator has accepted; the leader adopts it.
    accepted    text
);
INSERT INTO system_identity (resource, identity) VALUES ('database', gen_random_uuid()::text);

-- When each process has last written all its recorded activity (SPEC 5, 12.10). Nobody is
-- put to sleep while one of them is late.
CREATE TABLE activity_writers (
    instance   uuid PRIMARY KEY,
    node_id    text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    flushed_at timestamptz NOT NULL DEFAULT now()
);

-- Transitions with their cause and who asked, trimmed by age (SPEC 4).
CREATE TABLE workspace_history (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id uuid NOT NULL,
    at           timestamptz NOT NULL DEFAULT now(),
    -- What changed: the creation, the phase, the operation, an error, what it waits for,
    -- the desired state, a deletion, an undeletion, a recovery, a collection by the GC.
    kind         text NOT NULL CHECK (kind IN ('created', 'phase', 'operation', 'error', 'waiting',
        'desired_state', 'deleted', 'undeleted', 'recovered', 'collected')),
    old_value    text,
    new_value    text,
    message      text,
    -- Through what: api, gateway, ttl, cli, controller, gc; and the user, if there is one.
    cause        text NOT NULL,
    user_id      uuid,
    -- The term of the leader that wrote it, for what a leader writes.
    lock_name    text,
    epoch        bigint
);
CREATE INDEX workspace_history_workspace ON workspace_history (workspace_id, id DESC);
CREATE INDEX workspace_history_age ON workspace_history (at);

-- Grows with every change that a gateway or a browser needs to know (SPEC 4).
CREATE SEQUENCE workspace_revision;

-- Generated columns cannot be changed in place.
DROP INDEX workspaces_watched, workspaces_counted, workspaces_failed;
ALTER TABLE workspaces DROP COLUMN watched, DROP COLUMN counted;

ALTER TABLE workspaces
    -- Writer: the controller. What the workspace waits for, {reason, message, since}, or NULL.
    ADD COLUMN waiting jsonb CHECK (jsonb_typeof(waiting) = 'object'),
    -- Writer: the controller. Deleted, and nothing is left but its archive.
    ADD COLUMN awaits_gc boolean NOT NULL DEFAULT false,
    -- Writer: the service layer. The choice of the last recovery, {id, choice, key}, or NULL.
    ADD COLUMN recovery jsonb CHECK (jsonb_typeof(recovery) = 'object'),
    -- Writer: the service layer. An administrator has given up what the delay would keep.
    ADD COLUMN delete_now boolean NOT NULL DEFAULT false,
    -- Writer: the garbage collector, before it deletes a deleted workspace's archives. From
    -- then on the deletion cannot be undone.
    ADD COLUMN collected_at timestamptz,
    -- Writer: the trigger below.
    ADD COLUMN revision bigint NOT NULL DEFAULT nextval('workspace_revision'),
    -- The last 16 bits of the id; a workspace belongs to the shard slot % shards (SPEC 5).
    ADD COLUMN slot integer NOT NULL GENERATED ALWAYS AS (
        get_byte(uuid_send(id), 14) * 256 + get_byte(uuid_send(id), 15)) STORED,
    -- What the slow tick observes. Deleted ones count until nothing but an archive is left
    -- of them. In ERROR only the recovered ones (error_reason is NULL) and those with a
    -- reason that is not terminal; package workspace has the same rule. The running ones
    -- are observed because containers can exit by themselves. awaits_gc says nothing about
    -- a workspace whose deletion was undone since.
    ADD COLUMN watched boolean NOT NULL GENERATED ALWAYS AS (
        phase <> 'DELETED' AND NOT (awaits_gc AND deleted_at IS NOT NULL) AND (
            operation <> 'NONE'
            OR deleted_at IS NOT NULL
            OR phase = 'RUNNING'
            OR (phase <> 'ERROR' AND phase <> desired_state)
            OR (phase = 'ERROR' AND (error_reason IS NULL OR error_reason IN ('ActionFailed', 'Unreachable')))
        )
    ) STORED,
    -- What the fast tick observes: those of the watched ones that are about to change.
    ADD COLUMN in_transition boolean NOT NULL GENERATED ALWAYS AS (
        phase <> 'DELETED' AND NOT (awaits_gc AND deleted_at IS NOT NULL) AND (
            operation <> 'NONE'
            OR (phase <> 'ERROR' AND waiting IS NULL AND (deleted_at IS NOT NULL OR phase <> desired_state))
            OR (phase = 'ERROR' AND error_reason IS NULL)
        )
    ) STORED,
    -- What the limits count (SPEC 5): phase or desired state RUNNING, but none in ERROR. A
    -- recovered one is on its way out of ERROR: it has its place from its recovery on.
    ADD COLUMN counted boolean NOT NULL GENERATED ALWAYS AS (
        deleted_at IS NULL AND (phase <> 'ERROR' OR error_reason IS NULL)
        AND (phase = 'RUNNING' OR desired_state = 'RUNNING')
    ) STORED;

CREATE INDEX workspaces_watched ON workspaces (id) WHERE watched;
CREATE INDEX workspaces_in_transition ON workspaces (id) WHERE in_transition;
CREATE INDEX workspaces_counted ON workspaces (owner_user_id) WHERE counted;
CREATE INDEX workspaces_failed ON workspaces (error_reason, id) WHERE phase = 'ERROR';
CREATE INDEX workspaces_sweep ON workspaces (id) WHERE phase = 'STANDBY' OR awaits_gc;
CREATE UNIQUE INDEX workspaces_revision ON workspaces (revision);
CREATE INDEX workspaces_undeletable ON workspaces (owner_user_id, deleted_at DESC, id DESC)
    WHERE deleted_at IS NOT NULL AND collected_at IS NULL AND phase <> 'DELETED';
ALTER SEQUENCE workspace_revision OWNED BY workspaces.revision;

CREATE FUNCTION next_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.revision := nextval('workspace_revision');
    RETURN NEW;
END $$;

CREATE TRIGGER revision BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.phase, OLD.operation, OLD.error_reason, OLD.error_message, OLD.name, OLD.description, OLD.memo,
        OLD.endpoint, OLD.desired_state, OLD.deleted_at, OLD.waiting, OLD.image_ref, OLD.collected_at)
        IS DISTINCT FROM
        (NEW.phase, NEW.operation, NEW.error_reason, NEW.error_message, NEW.name, NEW.description, NEW.memo,
        NEW.endpoint, NEW.desired_state, NEW.deleted_at, NEW.waiting, NEW.image_ref, NEW.collected_at))
    EXECUTE FUNCTION next_revision();

-- The same list as before, and what it waits for.
DROP TRIGGER sse_update ON workspaces;
CREATE TRIGGER sse_update AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN (OLD.revision <> NEW.revision)
    EXECUTE FUNCTION notify_workspace('ws_sse');

-- An administrator who gives up what a deletion keeps does not wait for the next tick.
DROP TRIGGER wake_update ON workspaces;
CREATE TRIGGER wake_update AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN (OLD.desired_state IS DISTINCT FROM NEW.desired_state
        OR (NOT OLD.delete_now AND NEW.delete_now)
        OR (OLD.error_reason IS NOT NULL AND NEW.error_reason IS NULL AND NEW.phase = 'ERROR'))
    EXECUTE FUNCTION notify_workspace('ws_wake');
