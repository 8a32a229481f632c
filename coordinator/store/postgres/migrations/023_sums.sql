-- The days of usage, added up by weeks and by days (SPEC 14), for reports of all workspaces. They read few days of each workspace, and
-- the weeks between them.

-- Sums of the days from a Monday on. Triggers keep them, so that they are what the days add up to, whatever process writes those.
CREATE TABLE usage_weeks (
    week              date NOT NULL,
    workspace_id      uuid NOT NULL,
    phase             text NOT NULL,
    owner_user_id     uuid NOT NULL,
    -- Of how many rows of usage_days this is the sum.
    days              bigint NOT NULL,
    micros            bigint NOT NULL,
    byte_micros       numeric NOT NULL,
    input_micros      bigint NOT NULL,
    requests_micros   bigint NOT NULL,
    work_micros       bigint NOT NULL,
    keep_awake_micros bigint NOT NULL,
    PRIMARY KEY (week, workspace_id, phase, owner_user_id)
);
CREATE INDEX usage_weeks_owner ON usage_weeks (owner_user_id, week);
-- Reports add up the causes of these alone.
CREATE INDEX usage_days_awake ON usage_days (day) WHERE phase = 'RUNNING';
CREATE INDEX usage_weeks_awake ON usage_weeks (week) WHERE phase = 'RUNNING';
CREATE STATISTICS usage_weeks_groups (ndistinct) ON workspace_id, owner_user_id, phase FROM usage_weeks;

-- Sums of the days of all workspaces. Each change only adds rows: none waits for another, or can deadlock with it.
CREATE TABLE usage_totals (
    day               date NOT NULL,
    phase             text NOT NULL,
    -- As in usage_weeks; less than 0 where rows were taken away.
    days              bigint NOT NULL,
    micros            bigint NOT NULL,
    input_micros      bigint NOT NULL,
    requests_micros   bigint NOT NULL,
    work_micros       bigint NOT NULL,
    keep_awake_micros bigint NOT NULL
);

-- Adds the changed days to the sums, or takes them away: its argument is 1 or -1.
CREATE FUNCTION sum_days() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    sign int := TG_ARGV[0];
BEGIN
    INSERT INTO usage_weeks AS w (week, workspace_id, phase, owner_user_id, days, micros, byte_micros,
        input_micros, requests_micros, work_micros, keep_awake_micros)
    SELECT date_trunc('week', day)::date, workspace_id, phase, owner_user_id, sign * count(*), sign * sum(micros), sign * sum(byte_micros),
        sign * sum(input_micros), sign * sum(requests_micros), sign * sum(work_micros), sign * sum(keep_awake_micros)
    FROM changed GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (week, workspace_id, phase, owner_user_id) DO UPDATE
    SET days = w.days + excluded.days, micros = w.micros + excluded.micros, byte_micros = w.byte_micros + excluded.byte_micros,
        input_micros = w.input_micros + excluded.input_micros, requests_micros = w.requests_micros + excluded.requests_micros,
        work_micros = w.work_micros + excluded.work_micros, keep_awake_micros = w.keep_awake_micros + excluded.keep_awake_micros;
    INSERT INTO usage_totals
    SELECT day, phase, sign * count(*), sign * sum(micros),
        sign * sum(input_micros), sign * sum(requests_micros), sign * sum(work_micros), sign * sum(keep_awake_micros)
    FROM changed GROUP BY day, phase;
    IF sign < 0 THEN
        DELETE FROM usage_weeks w USING changed c
        WHERE w.days = 0 AND w.week = date_trunc('week', c.day)::date AND w.workspace_id = c.workspace_id
            AND w.phase = c.phase AND w.owner_user_id = c.owner_user_id;
    END IF;
    RETURN NULL;
END $$;
-- In the order of their names: what an update replaces is taken away last, so that the week's row stays.
CREATE TRIGGER sums_add AFTER INSERT ON usage_days REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION sum_days('1');
CREATE TRIGGER sums_change_1 AFTER UPDATE ON usage_days REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION sum_days('1');
CREATE TRIGGER sums_change_2 AFTER UPDATE ON usage_days REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION sum_days('-1');
CREATE TRIGGER sums_remove AFTER DELETE ON usage_days REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION sum_days('-1');

INSERT INTO usage_weeks SELECT date_trunc('week', day)::date, workspace_id, phase, owner_user_id, count(*), sum(micros), sum(byte_micros),
    sum(input_micros), sum(requests_micros), sum(work_micros), sum(keep_awake_micros)
FROM usage_days GROUP BY 1, 2, 3, 4;
INSERT INTO usage_totals SELECT day, phase, count(*), sum(micros), sum(input_micros), sum(requests_micros), sum(work_micros), sum(keep_awake_micros)
FROM usage_days GROUP BY 1, 2;
