-- Who is there, what works, where it answers, who signed in (SPEC 5, 6, 8).

ALTER TABLE workspaces
    -- Writer: the controller, with endpoint. The path prefix that the application behind the
    -- endpoint keeps, such as /w/{id}; NULL when it serves at /.
    ADD COLUMN base_path text CHECK (base_path LIKE '/%'),
    -- Writer: the service layer. The owner asked that it is not put to sleep before.
    ADD COLUMN keep_awake_until timestamptz,
    -- Writer: the TTL runner. Why an unused workspace stays awake, {reason, detail, since}, or
    -- NULL.
    ADD COLUMN busy jsonb CHECK (jsonb_typeof(busy) = 'object'),
    -- Writer: the TTL runner. When it will be put to sleep unless it is used; NULL while that
    -- is not near.
    ADD COLUMN sleep_at timestamptz,
    -- Writer: the gateways. 'traffic' when its pages cannot carry the script that reports
    -- people's input, so that everything they send counts (SPEC 6).
    ADD COLUMN page_activity text CHECK (page_activity IN ('presence', 'traffic'));

DROP TRIGGER revision ON workspaces;
CREATE TRIGGER revision BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.phase, OLD.operation, OLD.error_reason, OLD.error_message, OLD.name, OLD.description, OLD.memo,
        OLD.endpoint, OLD.desired_state, OLD.deleted_at, OLD.waiting, OLD.image_ref, OLD.collected_at,
        OLD.base_path, OLD.keep_awake_until, OLD.busy, OLD.sleep_at, OLD.page_activity)
        IS DISTINCT FROM
        (NEW.phase, NEW.operation, NEW.error_reason, NEW.error_message, NEW.name, NEW.description, NEW.memo,
        NEW.endpoint, NEW.desired_state, NEW.deleted_at, NEW.waiting, NEW.image_ref, NEW.collected_at,
        NEW.base_path, NEW.keep_awake_until, NEW.busy, NEW.sleep_at, NEW.page_activity))
    EXECUTE FUNCTION next_revision();

-- What the TTL runner has found out and announced ends with what it was about: a use, a
-- longer wish to stay awake, the end of running. Its name makes it fire before revision.
CREATE FUNCTION forget_announcement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.sleep_at := NULL;
    IF NEW.keep_awake_until IS NOT DISTINCT FROM OLD.keep_awake_until THEN
        NEW.busy := NULL;
    END IF;
    IF NEW.desired_state <> 'RUNNING' THEN
        NEW.keep_awake_until := NULL;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER announcement BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.phase, OLD.desired_state, OLD.deleted_at, OLD.last_access_at, OLD.keep_awake_until) IS DISTINCT FROM
        (NEW.phase, NEW.desired_state, NEW.deleted_at, NEW.last_access_at, NEW.keep_awake_until))
    EXECUTE FUNCTION forget_announcement();

-- A text without any of these characters is the name of a configured image from now on.
UPDATE workspaces SET image_ref = image_ref || ':latest' WHERE image_ref !~ '[/:@]';

-- Which address each workspace has, or had last (SPEC 8). A slot is a position in a pool of
-- addresses that the backend gives out by number: in ipv4 the address itself, in loopback
-- the port. Another workspace may get it only when its last use is longer ago than any
-- process can hold a route to it.
CREATE TABLE workspace_addresses (
    pool         text NOT NULL,
    slot         bigint NOT NULL CHECK (slot >= 0),
    -- The last one that it was given to or that was seen there; NULL when something that
    -- is no workspace was.
    workspace_id uuid,
    -- The last time at which a route may have led there. While the workspace has an
    -- endpoint, it is being used, whatever this says.
    used_at      timestamptz NOT NULL,
    PRIMARY KEY (pool, slot)
);
CREATE INDEX workspace_addresses_workspace ON workspace_addresses (workspace_id);
CREATE INDEX workspace_addresses_used ON workspace_addresses (pool, used_at);

-- Records that a route led to the endpoint until now, or does from now on: also for one
-- that the backend has not given out by number, such as one of an earlier release or of a
-- container that the database has forgotten. An address that belongs to no pool changes
-- nothing.
CREATE FUNCTION address_used(endpoint text, id uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    p text := 'ipv4';
    s bigint;
BEGIN
    IF endpoint IS NULL OR endpoint !~ '^((25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])[.:]){4}[0-9]{1,5}$' THEN
        RETURN;
    ELSIF endpoint LIKE '127.0.0.1:%' THEN
        p := 'loopback';
        s := split_part(endpoint, ':', 2)::bigint;
    ELSE
        s := split_part(endpoint, ':', 1)::inet - '0.0.0.0'::inet;
    END IF;
    INSERT INTO workspace_addresses AS a (pool, slot, workspace_id, used_at) VALUES (p, s, id, clock_timestamp())
    ON CONFLICT (pool, slot) DO UPDATE SET used_at = excluded.used_at,
        -- Whoever runs there keeps it.
        workspace_id = CASE WHEN EXISTS (SELECT FROM workspaces w WHERE w.id = a.workspace_id AND w.endpoint IS NOT NULL)
            THEN a.workspace_id ELSE excluded.workspace_id END;
END $$;

CREATE FUNCTION endpoint_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM address_used(OLD.endpoint, NEW.id);
    PERFORM address_used(NEW.endpoint, NEW.id);
    RETURN NULL;
END $$;
CREATE TRIGGER endpoint_changed AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN (NEW.endpoint IS DISTINCT FROM OLD.endpoint)
    EXECUTE FUNCTION endpoint_changed();
-- Routes of the time before this table lead to these.
SELECT address_used(endpoint, id) FROM workspaces WHERE endpoint IS NOT NULL;

-- Where a session was opened from, for its owner to recognise it.
ALTER TABLE sessions
    ADD COLUMN address      text,
    ADD COLUMN client       text CHECK (char_length(client) <= 400),
    ADD COLUMN last_used_at timestamptz NOT NULL DEFAULT now(),
    -- The identity provider through which it was opened, and that one's id of the sign-in.
    ADD COLUMN issuer           text,
    ADD COLUMN provider_session text;
CREATE INDEX sessions_provider ON sessions (issuer, provider_session) WHERE issuer IS NOT NULL;

-- A ticket is good in the browser that asked for it only: the hash of that browser's secret.
ALTER TABLE tickets ADD COLUMN browser_hash bytea CHECK (octet_length(browser_hash) = 32);

-- Users of other identity providers: OpenID Connect's issuer and subject.
CREATE TABLE user_identities (
    issuer     text NOT NULL,
    subject    text NOT NULL,
    user_id    uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX user_identities_user ON user_identities (user_id);

-- Failed sign-ins in a row, per account and per address; keys are hashes of the two.
CREATE TABLE sign_in_failures (
    key           bytea PRIMARY KEY CHECK (octet_length(key) = 32),
    failures      integer NOT NULL,
    failed_at     timestamptz NOT NULL DEFAULT now(),
    blocked_until timestamptz
);
CREATE INDEX sign_in_failures_age ON sign_in_failures (failed_at);
