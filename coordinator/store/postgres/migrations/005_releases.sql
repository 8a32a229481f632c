-- Releases beside one another (SPEC 12.14), and the checksums of migrations.

-- Earlier texts of 002_control_plane.sql have run in databases of development: each of them
-- gets what the text of the release makes. A database of a release is not changed.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'system_locks'::regclass AND attname = 'shards') THEN
        ALTER TABLE system_locks ADD COLUMN shards integer NOT NULL DEFAULT 1;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'activity_writers'::regclass AND attname = 'due_at') THEN
        -- The processes write themselves in again.
        DROP TABLE activity_writers;
        CREATE TABLE activity_writers (
            instance    uuid PRIMARY KEY,
            node_id     text NOT NULL,
            started_at  timestamptz NOT NULL DEFAULT now(),
            flushed_at  timestamptz NOT NULL,
            due_at      timestamptz NOT NULL,
            has_session boolean NOT NULL
        );
    END IF;
    IF (SELECT pg_get_expr(d.adbin, d.adrelid) NOT LIKE '%error_reason%' FROM pg_attrdef d
        JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        WHERE a.attrelid = 'workspaces'::regclass AND a.attname = 'counted') THEN
        ALTER TABLE workspaces DROP COLUMN counted;
        ALTER TABLE workspaces ADD COLUMN counted boolean NOT NULL GENERATED ALWAYS AS (
            deleted_at IS NULL AND (phase <> 'ERROR' OR error_reason IS NULL)
            AND (phase = 'RUNNING' OR desired_state = 'RUNNING')
        ) STORED;
        CREATE INDEX workspaces_counted ON workspaces (owner_user_id) WHERE counted;
    END IF;
    IF pg_get_indexdef('workspaces_undeletable'::regclass) NOT LIKE '%id DESC)%' THEN
        DROP INDEX workspaces_undeletable;
        CREATE INDEX workspaces_undeletable ON workspaces (owner_user_id, deleted_at DESC, id DESC)
            WHERE deleted_at IS NOT NULL AND collected_at IS NULL AND phase <> 'DELETED';
    END IF;
END $$;

-- The text of each migration that has run, for the next process to compare with its own. Those
-- before this one are recorded as the release has them.
CREATE TABLE schema_migrations (
    version     integer PRIMARY KEY,
    name        text NOT NULL,
    sha256      text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    recorded_at timestamptz NOT NULL DEFAULT now()
);

-- What a process must know of the schema, as the number of the newest migration that it brings
-- along: to lead, or to collect archives; and to serve requests at all.
CREATE TABLE schema_requirements (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    lead  integer NOT NULL,
    serve integer NOT NULL
);
INSERT INTO schema_requirements (lead, serve) VALUES (0, 0);

-- Each session says what its process knows in the setting codehub.schema. Those of releases
-- from before this migration say nothing, and know less than it.
CREATE FUNCTION refuse_older_leader() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    known    integer := COALESCE(NULLIF(current_setting('codehub.schema', true), '')::integer, 0);
    required integer := (SELECT lead FROM schema_requirements);
BEGIN
    IF known < required THEN
        RAISE EXCEPTION 'this process is of a release that is too old to lead: the schema of the database asks for one that knows version % of it', required
            USING ERRCODE = 'CH014', HINT = 'Upgrade this process. Until then it serves requests, and newer ones lead.';
    END IF;
    RETURN NEW;
END $$;
LOCK TABLE system_locks IN SHARE ROW EXCLUSIVE MODE;
CREATE TRIGGER refuse_older_leader BEFORE INSERT OR UPDATE ON system_locks
    FOR EACH ROW EXECUTE FUNCTION refuse_older_leader();

-- For a migration after which older releases must not lead, or not even serve. It ends the terms
-- of all who lead now: their writes fail, and every release asks for its epoch within seconds.
CREATE FUNCTION require_release(lead_version integer, serve_version integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE system_locks IN SHARE ROW EXCLUSIVE MODE;
    UPDATE schema_requirements SET lead = GREATEST(lead, lead_version), serve = GREATEST(serve, serve_version);
    PERFORM set_config('codehub.schema', GREATEST(lead_version, NULLIF(current_setting('codehub.schema', true), '')::integer)::text, true);
    UPDATE system_locks SET epoch = epoch + 1;
END $$;
SELECT require_release(5, 1);
