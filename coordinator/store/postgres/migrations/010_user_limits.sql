-- Limits of single users (SPEC 5); NULL means that of all users.
ALTER TABLE users
    ADD COLUMN max_running    integer CHECK (max_running >= 1),
    ADD COLUMN max_workspaces integer CHECK (max_workspaces >= 1);
