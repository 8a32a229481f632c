-- An identity without an issuer or a subject is nobody's: different people were one user by it.
-- Nobody signs in by it any more, and who has done so signs in anew.
LOCK TABLE user_identities IN SHARE ROW EXCLUSIVE MODE;
DELETE FROM sessions WHERE issuer IS NOT NULL
    AND user_id IN (SELECT user_id FROM user_identities WHERE issuer !~ '\S' OR subject !~ '\S');
DELETE FROM user_identities WHERE issuer !~ '\S' OR subject !~ '\S';
ALTER TABLE user_identities ADD CHECK (issuer ~ '\S' AND subject ~ '\S');
