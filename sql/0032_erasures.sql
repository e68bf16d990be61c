-- Erases an account with all its keys, and removes the texts of its events. See src/keys/revoke_and_erase.ts and
-- src/usage/erase_texts.ts.
-- runs with 27

alter table accounts
  -- From then on the account gets no new key: its keys are being revoked, so that the person can be erased.
  add column erasing_since timestamptz,
  -- Null for an account of a living person, and for one that an older program erased without a row in the audit log.
  add column erased_at timestamptz,
  -- Since when no event of the account has texts.
  add column texts_erased_at timestamptz;

update accounts a
   set erased_at = (select max(at) from audit where account_id = a.id and action = 'account.erase')
 where is_erased(a);

create index accounts_with_texts on accounts (id)
  where texts_erased_at is null and email like 'erased-%@erased.invalid';

create function note_erasure() returns trigger language plpgsql as $$
begin
  new.erased_at := clock_timestamp();
  return new;
end
$$;

create trigger accounts_note_erasure before update of email on accounts
  for each row
  when (is_erased(new) and not is_erased(old))
  execute function note_erasure();

-- External ids can name a person, too. Locks the licenses in the same order as every other statement.
create function erase_external_ids() returns trigger language plpgsql as $$
begin
  perform from licenses l where l.account_id = new.id order by l.id for no key update;
  update licenses l set external_id = null where l.account_id = new.id and l.external_id is not null;
  return null;
end
$$;

create trigger accounts_erase_external_ids after update of email on accounts
  for each row
  when (is_erased(new))
  execute function erase_external_ids();

-- The search for the texts of all accounts that wait for it: one row while it runs. It reads every partition once, from its
-- first page to its last one, because no index finds the events of an account. Not part of backups: the pages of a restored
-- partition have other rows.
create table erasure_sweep (
  is_only boolean default true constraint erasure_sweep_pkey primary key,
  began_at timestamptz not null,
  -- The partition that is being read; all partitions before it are done. The default partition comes first, because its
  -- rows can move into the partitions of months. Empty before the first one.
  place text collate "C" not null default '',
  -- Its file: a rewritten partition is read again.
  file oid not null default 0,
  -- The next page; null if the partition is done.
  page bigint default 0,
  constraint erasure_sweep_is_only check (is_only)
);

-- Tells whether a search that began then is for the account. Events that were on their way when its last key was revoked are
-- committed within seconds.
create function awaits_sweep(account accounts, began_at timestamptz) returns boolean language sql stable as $$
  select account.texts_erased_at is null and account.email like 'erased-%@erased.invalid' and is_erased(account)
     and coalesce(account.erased_at, '-infinity') < began_at - interval '1 minute'
$$;

-- Removes the texts from the events in the next pages of a partition: a name of a model in the registry is no text of a
-- person, and stays. Returns whether there is more to do now: not while
-- another process does it.
create function sweep_erased(most_pages integer) returns boolean language plpgsql as $$
declare
  sweep erasure_sweep;
  part record;
begin
  select * into sweep from erasure_sweep for update skip locked;
  if not found then
    insert into erasure_sweep (began_at)
    select clock_timestamp()
     where not exists (select from erasure_sweep)
       and exists (select from accounts a where awaits_sweep(a, clock_timestamp()))
    on conflict do nothing;
    return found;
  end if;
  select * into part
    from (select c.oid, c.relname, pg_relation_filenode(c.oid) as file,
                 case when c.relname = 'events_elsewhen' then 'events_0' else c.relname::text end collate "C" as place
            from pg_inherits i join pg_class c on c.oid = i.inhrelid
           where i.inhparent = 'events'::regclass) as candidate
   where candidate.place > sweep.place or (candidate.place = sweep.place and sweep.page is not null)
   order by candidate.place
   limit 1;
  if not found then
    update licenses l set external_id = null
      from accounts a
     where awaits_sweep(a, sweep.began_at) and l.account_id = a.id and l.external_id is not null;
    update accounts a set texts_erased_at = clock_timestamp() where awaits_sweep(a, sweep.began_at);
    delete from erasure_sweep;
    return true;
  end if;
  if part.place <> sweep.place or part.file <> sweep.file then
    sweep.page := 0;
  end if;
  execute format($update$
    update %s e
       set error_message = null, metadata = null,
           model_name = (select m.name from models m where m.name = e.model_name)
     where e.ctid >= '(%s,0)' and e.ctid < '(%s,0)'
       and (e.error_message is not null or e.metadata is not null
            or (e.model_name is not null and e.model_name <> all(array(select name from models))))
       and e.license_id in (select l.id from accounts a join licenses l on l.account_id = a.id where awaits_sweep(a, $1))
  $update$, part.oid::regclass, sweep.page, sweep.page + most_pages) using sweep.began_at;
  update erasure_sweep
     set place = part.place, file = part.file,
         page = case when (sweep.page + most_pages) * current_setting('block_size')::bigint < pg_relation_size(part.oid)
                     then sweep.page + most_pages end;
  return true;
end
$$;
