-- Until when a license gets new versions of models (see src/licensing/updates.ts).
-- runs with 27

alter table licenses
  -- Null: every version.
  add column updates_until timestamptz;

-- As in 0041, but the end of updates is noticed, too.
create or replace trigger note_change
  before update of account_id, tier, monthly_limit, expires_at, max_machines, seat_minutes, updates_until on licenses
  for each row execute function note_change();
