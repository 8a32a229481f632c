-- Beside lists of what can be undeleted, event streams read which of a user's workspaces were deleted since (SPEC 9).
DROP INDEX workspaces_undeletable;
CREATE INDEX workspaces_undeletable ON workspaces (owner_user_id, deleted_at DESC, id DESC) WHERE deleted_at IS NOT NULL;
