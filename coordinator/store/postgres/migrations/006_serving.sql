-- A process that must not even serve requests leads nothing, whatever the migration asks of
-- leaders (SPEC 12.14).
CREATE OR REPLACE FUNCTION require_release(lead_version integer, serve_version integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    leads integer := GREATEST(lead_version, serve_version);
BEGIN
    LOCK TABLE system_locks IN SHARE ROW EXCLUSIVE MODE;
    UPDATE schema_requirements SET lead = GREATEST(lead, leads), serve = GREATEST(serve, serve_version);
    PERFORM set_config('codehub.schema', GREATEST(leads, NULLIF(current_setting('codehub.schema', true), '')::integer)::text, true);
    UPDATE system_locks SET epoch = epoch + 1;
END $$;
