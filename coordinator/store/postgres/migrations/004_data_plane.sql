-- How archiving and restoring get on, how large homes are, which archives there are (SPEC 7).

ALTER TABLE workspaces
    -- Writer: the controller. How the storage job of the operation in progress gets on, or
    -- NULL: see workspace.Progress.
    ADD COLUMN progress jsonb CHECK (jsonb_typeof(progress) = 'object'),
    -- Writer: the controller. The size of the home when it was last measured: the bytes of all
    -- regular files, and the number of files and folders.
    ADD COLUMN home_bytes bigint CHECK (home_bytes >= 0),
    ADD COLUMN home_files bigint CHECK (home_files >= 0),
    ADD COLUMN home_measured_at timestamptz,
    -- Writers: the controller and the scrub. What is wrong with the archive at archive_key, or
    -- NULL.
    ADD COLUMN archive_damage text;

DROP TRIGGER revision ON workspaces;
CREATE TRIGGER revision BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.phase, OLD.operation, OLD.error_reason, OLD.error_message, OLD.name, OLD.description, OLD.memo,
        OLD.endpoint, OLD.desired_state, OLD.deleted_at, OLD.waiting, OLD.image_ref, OLD.collected_at,
        OLD.base_path, OLD.keep_awake_until, OLD.busy, OLD.sleep_at, OLD.page_activity,
        OLD.progress, OLD.home_bytes, OLD.archive_damage)
        IS DISTINCT FROM
        (NEW.phase, NEW.operation, NEW.error_reason, NEW.error_message, NEW.name, NEW.description, NEW.memo,
        NEW.endpoint, NEW.desired_state, NEW.deleted_at, NEW.waiting, NEW.image_ref, NEW.collected_at,
        NEW.base_path, NEW.keep_awake_until, NEW.busy, NEW.sleep_at, NEW.page_activity,
        NEW.progress, NEW.home_bytes, NEW.archive_damage))
    EXECUTE FUNCTION next_revision();

-- The complete archives of each workspace, as far as this database knows: the bucket is the
-- truth, and this table a help for people, retention and the scrub.
CREATE TABLE archives (
    workspace_id  uuid NOT NULL REFERENCES workspaces,
    -- Below the bucket's prefix, as in workspaces.archive_key.
    key           text NOT NULL,
    -- The object's size, and the sum of the regular files in it, in bytes; the number of
    -- entries. NULL when unknown.
    size          bigint NOT NULL CHECK (size >= 0),
    content_bytes bigint CHECK (content_bytes >= 0),
    files         bigint CHECK (files >= 0),
    -- The lower-case hexadecimal SHA-256 of the object; NULL when unknown.
    sha256        text CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    created_at    timestamptz NOT NULL DEFAULT now(),
    -- When it was last read back as a whole and found right; and what was wrong with it when
    -- it was last read, or NULL.
    verified_at   timestamptz,
    damage        text,
    PRIMARY KEY (workspace_id, key)
);

-- The sizes of homes.
ALTER TABLE workspaces
    -- Writer: the controller. The home holds more than home_bytes and home_files say: the last
    -- measurement was cut short.
    ADD COLUMN home_at_least boolean NOT NULL DEFAULT false;
-- Sleeping homes that were used since they were measured, and running ones by age.
CREATE INDEX workspaces_unmeasured ON workspaces (phase_changed_at)
    WHERE phase = 'STANDBY' AND deleted_at IS NULL
        AND (home_measured_at IS NULL OR home_measured_at < phase_changed_at);
CREATE INDEX workspaces_measured ON workspaces (home_measured_at NULLS FIRST)
    WHERE phase = 'RUNNING' AND deleted_at IS NULL;
-- Retention, older archives, the scrub (SPEC 7).

-- Generated columns cannot be changed in place.
DROP INDEX workspaces_watched, workspaces_in_transition;
ALTER TABLE workspaces DROP COLUMN watched, DROP COLUMN in_transition;

ALTER TABLE workspaces
    -- Writer: the service layer. The last wish to go back to an older archive, {id, key, at},
    -- or NULL. It is open until home_ctx has its id as revert_id.
    ADD COLUMN revert jsonb CHECK (jsonb_typeof(revert) = 'object'),
    -- Writers: the controller and the scrub. When the archive at archive_key was last read
    -- as a whole and found right, or NULL.
    ADD COLUMN archive_verified_at timestamptz,
    -- Writers: the same. The scrub has found something wrong with it and has not looked again
    -- yet.
    ADD COLUMN archive_suspected boolean NOT NULL DEFAULT false,
    -- What the slow tick observes: as before, and open reverts.
    ADD COLUMN watched boolean NOT NULL GENERATED ALWAYS AS (
        phase <> 'DELETED' AND NOT (awaits_gc AND deleted_at IS NOT NULL) AND (
            operation <> 'NONE'
            OR deleted_at IS NOT NULL
            OR phase = 'RUNNING'
            OR (phase <> 'ERROR' AND phase <> desired_state)
            OR (phase <> 'ERROR' AND revert IS NOT NULL AND revert ->> 'id' IS DISTINCT FROM home_ctx ->> 'revert_id')
            OR (phase = 'ERROR' AND (error_reason IS NULL OR error_reason IN ('ActionFailed', 'Unreachable')))
        )
    ) STORED,
    -- What the fast tick observes: those of the watched ones that are about to change.
    ADD COLUMN in_transition boolean NOT NULL GENERATED ALWAYS AS (
        phase <> 'DELETED' AND NOT (awaits_gc AND deleted_at IS NOT NULL) AND (
            operation <> 'NONE'
            OR (phase <> 'ERROR' AND waiting IS NULL AND (deleted_at IS NOT NULL OR phase <> desired_state
                OR revert IS NOT NULL AND revert ->> 'id' IS DISTINCT FROM home_ctx ->> 'revert_id'))
            OR (phase = 'ERROR' AND error_reason IS NULL)
        )
    ) STORED;

CREATE INDEX workspaces_watched ON workspaces (id) WHERE watched;
CREATE INDEX workspaces_in_transition ON workspaces (id) WHERE in_transition;

DROP TRIGGER wake_update ON workspaces;
CREATE TRIGGER wake_update AFTER UPDATE ON workspaces FOR EACH ROW
    WHEN (OLD.desired_state IS DISTINCT FROM NEW.desired_state
        OR OLD.revert IS DISTINCT FROM NEW.revert
        OR (NOT OLD.delete_now AND NEW.delete_now)
        OR (OLD.error_reason IS NOT NULL AND NEW.error_reason IS NULL AND NEW.phase = 'ERROR'))
    EXECUTE FUNCTION notify_workspace('ws_wake');

-- Browsers show that it goes back to an older archive, and no longer.
CREATE TRIGGER revision_revert BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN ((OLD.revert, OLD.home_ctx ->> 'revert_id') IS DISTINCT FROM (NEW.revert, NEW.home_ctx ->> 'revert_id'))
    EXECUTE FUNCTION next_revision();

-- reverting: somebody has asked for an older archive; reverted: what became of that.
ALTER TABLE workspace_history DROP CONSTRAINT workspace_history_kind_check;
ALTER TABLE workspace_history ADD CONSTRAINT workspace_history_kind_check CHECK (kind IN ('created', 'phase', 'operation',
    'error', 'waiting', 'desired_state', 'deleted', 'undeleted', 'recovered', 'collected', 'reverting', 'reverted'));

-- When the scrub has last read it, right or not.
ALTER TABLE archives ADD COLUMN checked_at timestamptz,
    -- When that has first found something wrong, and until it has looked again.
    ADD COLUMN suspected_at timestamptz;
CREATE INDEX archives_suspected ON archives (suspected_at) WHERE suspected_at IS NOT NULL;
-- Next is what nobody has read for the longest time.
CREATE INDEX archives_read ON archives (GREATEST(verified_at, checked_at) NULLS FIRST);
CREATE INDEX archives_checked ON archives (checked_at) WHERE checked_at IS NOT NULL;
CREATE INDEX archives_damaged ON archives (workspace_id) WHERE damage IS NOT NULL;
