-- Workspaces are no longer started before their owners come. No release had this: migration 019 is newer than the last one, so
-- no process of a release knows these columns and tables.
DROP TRIGGER arrival ON workspaces;
DROP TRIGGER ahead_ends ON workspaces;
DROP TRIGGER revision_ahead ON workspaces;
DROP FUNCTION note_arrival();
DROP FUNCTION end_ahead();
ALTER TABLE workspaces DROP COLUMN start_ahead, DROP COLUMN ahead_until;
DROP TABLE arrivals;
DROP TABLE predictions;
