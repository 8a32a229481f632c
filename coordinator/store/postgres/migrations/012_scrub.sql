-- When an administrator has asked to read it back now, until it was read (SPEC 7).
ALTER TABLE archives ADD COLUMN requested_at timestamptz;
CREATE INDEX archives_requested ON archives (key) WHERE requested_at IS NOT NULL;
