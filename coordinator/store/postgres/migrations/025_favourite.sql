-- Favourites come first on their owner's dashboard. Writer: the service layer.
ALTER TABLE workspaces ADD COLUMN favourite boolean NOT NULL DEFAULT false;

-- Pages show it.
CREATE TRIGGER revision_favourite BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN (OLD.favourite IS DISTINCT FROM NEW.favourite)
    EXECUTE FUNCTION next_revision();
