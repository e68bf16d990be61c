-- Features and values that a license has beside those of its tier (see src/licensing/features.ts and
-- src/licensing/entitlements.ts).
-- runs with 27

-- Whoever sets them by hand gets an error for what no process could read.
create function are_names(of jsonb) returns boolean language sql immutable as $$
  select not jsonb_path_exists(of, '$.keyvalue() ? (!(@.key like_regex "^[a-z][a-z0-9_]{0,63}$"))', silent => true)
$$;

create function are_features(of jsonb) returns boolean language sql immutable as $$
  select jsonb_typeof(of) = 'object'
     -- Not `lax`, which would look into an array.
     and not jsonb_path_exists(of, 'strict $.* ? (@.type() <> "object")', silent => true)
     and not jsonb_path_exists(of, '$.* ? (!exists(@.granted ? (@ == true || @ == false)))')
     and not jsonb_path_exists(of, '$.* ? (@.until.type() <> "string")')
     and not jsonb_path_exists(of, '$.*.until ? (!(@ like_regex "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$"))')
     and are_names(of)
$$;

create function are_values(of jsonb) returns boolean language sql immutable as $$
  select jsonb_typeof(of) = 'object'
     and not jsonb_path_exists(of, 'strict $.* ? (@.type() <> "number" && @.type() <> "string" && @.type() <> "boolean")',
                               silent => true)
     and are_names(of)
$$;

-- The values as the audit log has them: a text can name a person, who can be erased from the license, but not from the log.
create function logged_values(of jsonb) returns jsonb language sql immutable as $$
  select coalesce(jsonb_object_agg(key, case jsonb_typeof(value) when 'string' then '"…"'::jsonb else value end), '{}')
    from jsonb_each(of)
$$;

create function without_texts(of jsonb) returns jsonb language sql immutable as $$
  select coalesce(jsonb_object_agg(key, value), '{}') from jsonb_each(of) where jsonb_typeof(value) <> 'string'
$$;

-- As in 0032, but texts of values can name a person, too.
create or replace function erase_external_ids() returns trigger language plpgsql as $$
begin
  perform from licenses l where l.account_id = new.id order by l.id for no key update;
  update licenses l set external_id = null, own_entitlements = without_texts(own_entitlements)
   where l.account_id = new.id
     and (l.external_id is not null or l.own_entitlements <> without_texts(own_entitlements));
  return null;
end
$$;

-- The rows that exist have the defaults, so they are not read: a long lock would stop the service. Most licenses have none of
-- both, so this is checked first: a restore has a million of them.
alter table licenses
  -- By name: whether the feature is granted or withdrawn, and until when. A name that is missing is as the tier has it.
  add column own_features jsonb not null default '{}',
  -- By name: a number, a text, true or false. They come before those of the tier.
  add column own_entitlements jsonb not null default '{}',
  add constraint own_features_form check (own_features = '{}' or are_features(own_features)) not valid,
  add constraint own_entitlements_form check (own_entitlements = '{}' or are_values(own_entitlements)) not valid,
  add constraint own_features_bounded
    check (jsonb_array_length(jsonb_path_query_array(own_features, '$.*')) <= 32) not valid,
  add constraint own_entitlements_bounded check (
    jsonb_array_length(jsonb_path_query_array(own_entitlements, '$.*')) <= 32
    -- 4,096 bytes as JSON, and the blanks that this text has besides.
    and octet_length(own_entitlements::text) <= 4160) not valid;

-- As in 0043, but features and values are noticed, too.
create or replace trigger note_change
  before update of account_id, tier, monthly_limit, expires_at, max_machines, seat_minutes, updates_until, own_features,
                   own_entitlements
  on licenses for each row execute function note_change();

-- The values that every license of a tier has. A change reaches the caches of all processes, as that of a license does.
create table tiers (
  tier text collate "C" constraint tiers_pkey primary key,
  entitlements jsonb not null default '{}'
    constraint entitlements_form check (are_values(entitlements))
    constraint entitlements_bounded check (
      jsonb_array_length(jsonb_path_query_array(entitlements, '$.*')) <= 32 and octet_length(entitlements::text) <= 4160),
  changed_xid xid8 not null default pg_current_xact_id()
);

insert into tiers (tier) values ('free'), ('research'), ('commercial'), ('enterprise');

create trigger note_change before update of entitlements on tiers for each row execute function note_change();
create trigger tiers_are_kept before delete on tiers for each statement execute function refuse_deletion();

-- The features of the licenses of keys, for lists of the keys that have one.
create table listed_features (
  feature text collate "C" not null,
  key_id uuid not null,
  is_granted boolean not null,
  ends_at timestamptz not null,
  constraint listed_features_pkey primary key (feature, key_id)
);

create index listed_features_key on listed_features (key_id);
-- Grants that have ended stay, and a list must not read them.
create index listed_features_granted on listed_features (feature, ends_at) where is_granted;

-- These functions run while the license is locked, as those of 0017 do.

create function list_features_of_new_keys() returns trigger language plpgsql as $$
begin
  insert into listed_features (feature, key_id, is_granted, ends_at)
  select own.name, k.id, (own.value->>'granted')::boolean, coalesce((own.value->>'until')::timestamptz, 'infinity')
    from made k join licenses l on l.id = k.license_id cross join jsonb_each(l.own_features) as own (name, value)
   where l.own_features <> '{}';
  return null;
end
$$;

create function list_changed_features() returns trigger language plpgsql as $$
begin
  delete from listed_features where key_id in (select id from keys where license_id = new.id);
  insert into listed_features (feature, key_id, is_granted, ends_at)
  select own.name, k.id, (own.value->>'granted')::boolean, coalesce((own.value->>'until')::timestamptz, 'infinity')
    from keys k cross join jsonb_each(new.own_features) as own (name, value)
   where k.license_id = new.id;
  return null;
end
$$;

create function list_features_of_moved_key() returns trigger language plpgsql as $$
begin
  delete from listed_features where key_id = new.id;
  insert into listed_features (feature, key_id, is_granted, ends_at)
  select own.name, new.id, (own.value->>'granted')::boolean, coalesce((own.value->>'until')::timestamptz, 'infinity')
    from licenses l cross join jsonb_each(l.own_features) as own (name, value)
   where l.id = new.license_id;
  return null;
end
$$;

-- Its name comes after `list_new_keys`, which locks the license.
create trigger list_new_keys_features after insert on keys
  referencing new table as made for each statement execute function list_features_of_new_keys();
create trigger list_moved_features after update of license_id on keys
  for each row
  when (old.license_id <> new.license_id)
  execute function list_features_of_moved_key();
create trigger list_changed_features after update of own_features on licenses
  for each row
  when (old.own_features <> new.own_features)
  execute function list_changed_features();
