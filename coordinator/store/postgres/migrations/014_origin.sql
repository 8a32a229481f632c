-- The request that the workspace is on its way for, {request, trace}, or NULL (SPEC 4). Writer: the service layer, with
-- the desired state. It is for logs and traces alone: nothing decides by it, and no notification follows from it.
ALTER TABLE workspaces ADD COLUMN origin jsonb CHECK (jsonb_typeof(origin) = 'object');

CREATE FUNCTION forget_origin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.origin := NULL;
    RETURN NEW;
END $$;

-- It ends where the desired state is reached, and with another desired state that has none, as from an older release.
CREATE TRIGGER origin BEFORE UPDATE ON workspaces FOR EACH ROW
    WHEN (NEW.origin IS NOT NULL
        AND (OLD.phase, OLD.operation, OLD.desired_state) IS DISTINCT FROM (NEW.phase, NEW.operation, NEW.desired_state)
        AND (NEW.phase = NEW.desired_state AND NEW.operation = 'NONE'
            OR NEW.desired_state <> OLD.desired_state AND NEW.origin IS NOT DISTINCT FROM OLD.origin))
    EXECUTE FUNCTION forget_origin();
