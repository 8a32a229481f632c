-- What kept workspaces awake (SPEC 14). A trigger adds it up in the row of the workspace, by the statements that write there
-- anyhow, and writes it to the days when one of UTC is over and when the workspace sleeps.

ALTER TABLE workspaces
    -- Writer: the TTL runner. The last use by a person. What an older process writes is no person's.
    ADD COLUMN last_input_at timestamptz,
    -- Writer: a trigger, also of the next one. While it is awake: until when it is known what has kept it awake,
    ADD COLUMN awake_at timestamptz,
    -- and for how many microseconds, by the cause, on the day of that time. What is in no cause was idle.
    ADD COLUMN awake_by jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(awake_by) = 'object');

-- Of the micros of RUNNING.
ALTER TABLE usage_days
    ADD COLUMN input_micros      bigint NOT NULL DEFAULT 0,
    ADD COLUMN requests_micros   bigint NOT NULL DEFAULT 0,
    ADD COLUMN work_micros       bigint NOT NULL DEFAULT 0,
    ADD COLUMN keep_awake_micros bigint NOT NULL DEFAULT 0;
-- Reports of one owner.
CREATE INDEX usage_days_owner ON usage_days (owner_user_id, day);
CREATE INDEX usage_spans_owner ON usage_spans (owner_user_id);

-- How much of a time lies from the day first up to the day next, of UTC, in microseconds.
CREATE FUNCTION usage_micros(since timestamptz, until timestamptz, first date, next date) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT GREATEST(0, EXTRACT(epoch FROM LEAST(until, next::timestamp AT TIME ZONE 'UTC')
        - GREATEST(since, first::timestamp AT TIME ZONE 'UTC')) * 1000000)::bigint
$$;

-- Adds what kept a workspace awake on the day of known.
CREATE FUNCTION add_awake(id uuid, owner uuid, known timestamptz, sums jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO usage_days AS d (workspace_id, day, phase, owner_user_id, micros, byte_micros,
        input_micros, requests_micros, work_micros, keep_awake_micros)
    SELECT id, (known AT TIME ZONE 'UTC')::date, 'RUNNING', owner, 0, 0, COALESCE((sums ->> 'input')::bigint, 0),
        COALESCE((sums ->> 'requests')::bigint, 0), COALESCE((sums ->> 'work')::bigint, 0), COALESCE((sums ->> 'keep_awake')::bigint, 0)
    WHERE sums <> '{}'
    ON CONFLICT (workspace_id, day, phase) DO UPDATE
    SET input_micros = d.input_micros + excluded.input_micros, requests_micros = d.requests_micros + excluded.requests_micros,
        work_micros = d.work_micros + excluded.work_micros, keep_awake_micros = d.keep_awake_micros + excluded.keep_awake_micros
$$;

-- What is found has kept it awake since what was found before. A pause of more than ten minutes is the owner's wish
-- or, as all that has no cause, idle.
CREATE FUNCTION account_awake() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    pause    CONSTANT interval := '10 minutes';
    present  timestamptz := clock_timestamp();
    known    timestamptz := OLD.awake_at;
    sums       jsonb := OLD.awake_by;
    wish     timestamptz := COALESCE(OLD.keep_awake_until, '-infinity');
    used     timestamptz;
    input    timestamptz;
    ended    timestamptz; -- a look, a wish or running
    worked   timestamptz; -- a look has found the first work
    cause    text;
    until    timestamptz;
    midnight timestamptz;
    stops    timestamptz;
BEGIN
    IF TG_OP = 'INSERT' OR OLD.phase <> 'RUNNING' THEN
        NEW.awake_at := present;
        NEW.awake_by := '{}';
        RETURN NEW;
    END IF;
    IF NEW.last_access_at > COALESCE(OLD.last_access_at, '-infinity') THEN
        used := LEAST(NEW.last_access_at, present);
    END IF;
    IF NEW.last_input_at > COALESCE(OLD.last_input_at, '-infinity') THEN
        input := LEAST(NEW.last_input_at, present);
    END IF;
    IF NEW.phase <> 'RUNNING' OR OLD.keep_awake_until IS DISTINCT FROM NEW.keep_awake_until
        OR (OLD.busy IS NULL) <> (NEW.busy IS NULL) AND used IS NULL THEN
        ended := present;
    END IF;
    IF OLD.busy IS NULL AND NEW.busy IS NOT NULL THEN
        worked := present;
    END IF;
    -- Each takes what those above it have left, until its time. One without a time takes nothing.
    FOR cause, until IN VALUES
        ('work',       CASE WHEN OLD.busy IS NOT NULL THEN GREATEST(used, ended) END),
        ('keep_awake', CASE WHEN input - known > pause THEN LEAST(wish, input) END),
        ('idle',       CASE WHEN input - known > pause THEN input END),
        ('input',      input),
        ('keep_awake', CASE WHEN used - GREATEST(known, input) > pause THEN LEAST(wish, used) END),
        ('idle',       CASE WHEN used - GREATEST(known, input) > pause THEN used END),
        ('requests',   used),
        ('keep_awake', CASE WHEN ended IS NOT NULL THEN LEAST(wish, ended) END),
        ('idle',       CASE WHEN worked - GREATEST(known, wish) > pause THEN worked END),
        ('work',       worked)
    LOOP
        WHILE known < until LOOP
            midnight := (date_trunc('day', known AT TIME ZONE 'UTC') + interval '1 day') AT TIME ZONE 'UTC';
            stops := LEAST(until, midnight);
            IF cause <> 'idle' THEN
                sums := sums || jsonb_build_object(cause,
                    COALESCE((sums ->> cause)::bigint, 0) + (EXTRACT(epoch FROM stops - known) * 1000000)::bigint);
            END IF;
            IF stops = midnight THEN
                PERFORM add_awake(NEW.id, NEW.owner_user_id, known, sums);
                sums := '{}';
            END IF;
            known := stops;
        END LOOP;
    END LOOP;
    IF NEW.phase <> 'RUNNING' THEN
        PERFORM add_awake(NEW.id, NEW.owner_user_id, known, sums);
        known := NULL;
        sums := '{}';
    END IF;
    NEW.awake_at := known;
    NEW.awake_by := sums;
    RETURN NEW;
END $$;
CREATE TRIGGER awake_insert BEFORE INSERT ON workspaces FOR EACH ROW
    WHEN (NEW.phase = 'RUNNING') EXECUTE FUNCTION account_awake();
-- Its name makes it fire behind announcement, which forgets work that has ended.
CREATE TRIGGER awake_update BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN ('RUNNING' IN (OLD.phase, NEW.phase)
        AND (OLD.phase, OLD.last_access_at, OLD.last_input_at, OLD.keep_awake_until, OLD.busy IS NULL)
        IS DISTINCT FROM (NEW.phase, NEW.last_access_at, NEW.last_input_at, NEW.keep_awake_until, NEW.busy IS NULL))
    EXECUTE FUNCTION account_awake();

-- As before, but what keeps a workspace awake and its span begin at the same time.
CREATE OR REPLACE FUNCTION follow_usage() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    span    usage_spans;
    ends_at timestamptz := clock_timestamp();
BEGIN
    IF NEW.phase = 'RUNNING' AND OLD.phase IS DISTINCT FROM 'RUNNING' THEN
        ends_at := NEW.awake_at;
    END IF;
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

-- Of those that are awake it is known from now on; before, they count as idle.
UPDATE workspaces SET awake_at = clock_timestamp() WHERE phase = 'RUNNING';
