-- How many rows of failed logins the processes together had for each hour: those beyond the limit of an hour become
-- one. See src/operators/failed_logins.ts.
create table failed_login_hours (
  hour timestamptz constraint failed_login_hours_pkey primary key,
  rows bigint not null constraint failed_login_rows_positive check (rows > 0)
);
