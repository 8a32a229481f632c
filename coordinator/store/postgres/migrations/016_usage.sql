-- How long workspaces were in each phase, by day, and how much they held (SPEC 14). Triggers keep it, so that it is as
-- true as the phase is, whatever process writes that and wherever it is killed.

-- The present span of each workspace: it is added to the days when it ends.
CREATE TABLE usage_spans (
    workspace_id  uuid PRIMARY KEY,
    owner_user_id uuid NOT NULL,
    phase         text NOT NULL,
    -- What it holds meanwhile: its home on a volume, or its archive in the object store.
    bytes         bigint NOT NULL,
    since         timestamptz NOT NULL
);
-- Sums of the spans that have ended, by the days of UTC, in microseconds and byte-microseconds.
CREATE TABLE usage_days (
    workspace_id  uuid NOT NULL,
    day           date NOT NULL,
    phase         text NOT NULL,
    owner_user_id uuid NOT NULL,
    micros        bigint NOT NULL,
    byte_micros   numeric NOT NULL,
    PRIMARY KEY (workspace_id, day, phase)
);
CREATE INDEX usage_days_day ON usage_days (day);

CREATE FUNCTION usage_bytes(w workspaces) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT COALESCE(CASE WHEN w.phase = 'ARCHIVED'
        THEN (SELECT size FROM archives WHERE workspace_id = w.id AND key = w.archive_key)
        WHEN w.phase <> 'PENDING' THEN w.home_bytes END, 0)
$$;

-- Spans follow on each other without a gap: the next one begins where the last one ends.
CREATE FUNCTION follow_usage() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    span    usage_spans;
    ends_at timestamptz := clock_timestamp();
BEGIN
    SELECT * INTO span FROM usage_spans WHERE workspace_id = NEW.id FOR UPDATE;
    IF FOUND THEN
        ends_at := GREATEST(ends_at, span.since);
        INSERT INTO usage_days AS d (workspace_id, day, phase, owner_user_id, micros, byte_micros)
        SELECT NEW.id, day::date, span.phase, span.owner_user_id, lasted, lasted::numeric * span.bytes
        FROM generate_series(date_trunc('day', span.since AT TIME ZONE 'UTC'), ends_at AT TIME ZONE 'UTC', interval '1 day') AS day,
            LATERAL (SELECT (EXTRACT(epoch FROM LEAST(ends_at AT TIME ZONE 'UTC', day + interval '1 day')
                - GREATEST(span.since AT TIME ZONE 'UTC', day)) * 1000000)::bigint AS lasted) AS l
        WHERE lasted > 0
        ON CONFLICT (workspace_id, day, phase) DO UPDATE
        SET micros = d.micros + excluded.micros, byte_micros = d.byte_micros + excluded.byte_micros,
            owner_user_id = excluded.owner_user_id;
    END IF;
    IF NEW.phase = 'DELETED' THEN
        DELETE FROM usage_spans WHERE workspace_id = NEW.id;
    ELSE
        INSERT INTO usage_spans (workspace_id, owner_user_id, phase, bytes, since)
        VALUES (NEW.id, NEW.owner_user_id, NEW.phase, usage_bytes(NEW), ends_at)
        ON CONFLICT (workspace_id) DO UPDATE SET owner_user_id = excluded.owner_user_id, phase = excluded.phase,
            bytes = excluded.bytes, since = excluded.since;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_insert AFTER INSERT ON workspaces FOR EACH ROW EXECUTE FUNCTION follow_usage();
CREATE TRIGGER usage_update AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.phase, OLD.owner_user_id, OLD.home_bytes, OLD.archive_key)
        IS DISTINCT FROM (NEW.phase, NEW.owner_user_id, NEW.home_bytes, NEW.archive_key))
    EXECUTE FUNCTION follow_usage();

-- Those that exist count from now on. The triggers have locked out whatever would change one meanwhile.
INSERT INTO usage_spans (workspace_id, owner_user_id, phase, bytes, since)
SELECT id, owner_user_id, phase, usage_bytes(w), now() FROM workspaces w WHERE phase <> 'DELETED';
