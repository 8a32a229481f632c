-- Personal access tokens (SPEC 11): sessions of programs, which their users have named. What ends a session ends them as well.
ALTER TABLE sessions
    ADD COLUMN name   text CHECK (char_length(name) BETWEEN 1 AND 100),
    ADD COLUMN scopes text[] CHECK (cardinality(scopes) > 0),
    ADD CHECK ((name IS NULL) = (scopes IS NULL)),
    ADD CHECK (name IS NULL OR parent_id IS NULL);
