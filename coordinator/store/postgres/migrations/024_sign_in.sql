-- Which account a counter of failed sign-ins is of, as a hash, so that an administrator can unlock it (SPEC 11). A row of a
-- release from before this has none, and ends by itself within the hour.
ALTER TABLE sign_in_failures ADD COLUMN account bytea CHECK (octet_length(account) = 32);
CREATE INDEX sign_in_failures_account ON sign_in_failures (account) WHERE account IS NOT NULL;
