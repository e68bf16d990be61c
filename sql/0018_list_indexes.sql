-- Fills `listed_keys`, and builds the indexes of the lists. Other processes write meanwhile, so this is not one
-- transaction; after an interruption it starts again from the beginning. Only a change of a key or license may wait,
-- about 0.3 s, while 10,000 keys are being filled in. With 1,000,000 keys, 1,200,000 rows of the audit log and
-- 2,200,000 rows of use it took 80 s on two cores that other programs kept busy, 26 s of them for the keys.

do $$
declare
  last uuid := '00000000-0000-0000-0000-000000000000';
begin
  while last is not null loop
    with part as (
      select k.id, l.account_id, l.tier, k.mode, k.state, least(l.expires_at, k.own_expires_at)
        from keys k join licenses l on l.id = k.license_id
       where k.id > last
       order by k.id
       limit 10000
    ),
    filled as (
      insert into listed_keys (key_id, account_id, tier, mode, state, expires_at)
      select * from part
      on conflict do nothing
    )
    select max(id::text)::uuid into last from part;
    commit;
  end loop;
end
$$;

-- A page of keys is merged from the first keys of each month, tier, mode and state that the list includes.
drop index concurrently if exists listed_keys_filter;

create index concurrently listed_keys_filter
  on listed_keys (expiry_month, tier, mode, state, key_id) include (expires_at);

-- One account may have many thousand keys, so its index has everything that lists filter by.
drop index concurrently if exists listed_keys_account;

create index concurrently listed_keys_account
  on listed_keys (account_id, key_id) include (tier, mode, state, expires_at);

-- The licenses that used anything in a month, in their order. A commit of events changes neither column.
drop index concurrently if exists usage_month;

create index concurrently usage_month on usage (month, license_id);

-- The audit log in the order of its transactions.
drop index concurrently if exists audit_in_commit_order;

create index concurrently audit_in_commit_order on audit (xid nulls first, id);

-- The same order by month, because the times of the log are not in that order: a page is merged from the first rows of
-- each month. So rare rows and rows of long ago cost no more than others.
drop index concurrently if exists audit_by_month;

create index concurrently audit_by_month
  on audit (date_trunc('month', at at time zone 'UTC'), xid nulls first, id) include (at);

drop index concurrently if exists audit_by_actor;

create index concurrently audit_by_actor
  on audit (actor, date_trunc('month', at at time zone 'UTC'), xid nulls first, id) include (at);

drop index concurrently if exists audit_by_action;

create index concurrently audit_by_action
  on audit (action, date_trunc('month', at at time zone 'UTC'), xid nulls first, id) include (at);

drop index concurrently if exists audit_by_actor_and_action;

create index concurrently audit_by_actor_and_action
  on audit (actor, action, date_trunc('month', at at time zone 'UTC'), xid nulls first, id) include (at);

-- Takes the place of audit_account: one account may have many thousand rows.
drop index concurrently if exists audit_by_account;

create index concurrently audit_by_account on audit (account_id, xid nulls first, id) include (at, actor, action);

drop index concurrently if exists audit_account;
