-- The address of the repository that the image of a workspace clones into an empty project (SPEC 4). It is given
-- once, with the new workspace.
ALTER TABLE workspaces ADD COLUMN git_url text;
