-- Administrators list the workspaces of all users, newest first (SPEC 9).
CREATE INDEX workspaces_created ON workspaces (created_at DESC, id DESC) WHERE deleted_at IS NULL;
