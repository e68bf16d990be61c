-- Lists of machines by account and by state, of any number of machines. See src/machines/list_machines.ts.
-- runs with 27

alter table machines
  -- The account of the license, because a list of all machines of an account has one order for all its licenses.
  add column account_id uuid constraint machine_has_account references accounts (id),
  -- The state by the columns alone. A seat that ended by itself stays active here until the upkeep has seen it. No heartbeat
  -- changes the state: so it writes no index.
  add column stored_state text collate "C" not null generated always as (
    case when ended_at is not null then 'ended' when active_until = '-infinity' then 'released' else 'active' end
  ) stored;

update machines m set account_id = l.account_id from licenses l where l.id = m.license_id;

alter table machines alter column account_id set not null;

create function name_account_of_machine() returns trigger language plpgsql as $$
begin
  select l.account_id into new.account_id from licenses l where l.id = new.license_id;
  return new;
end
$$;

create trigger machines_name_account before insert on machines
  for each row
  when (new.account_id is null)
  execute function name_account_of_machine();

drop index machines_of_license, machines_all_holding, machines_all_ended, machines_all_signed;
create index machines_by_state on machines (stored_state, id);
create index machines_of_license_by_state on machines (license_id, stored_state, id);
create index machines_of_account_by_state on machines (account_id, stored_state, id);
