-- What made the commit of events expensive and need not be.

-- The limit in force when the license was charged last, null for unlimited. An upsert's update branch sees
-- of its statement only the row that was to be inserted: without this it looked every license up again.
alter table usage add column limited_to bigint;

-- Keys come in any order, so every event went to another page of a b-tree: 3 µs an event, and a page image
-- each after a checkpoint. This one keeps a filter of the keys for each 128 pages, made by vacuum.
create index events_time_key on events using brin (received_at, key_id uuid_bloom_ops);
drop index events_key_time;

-- On an empty table it begins with a filter, into which each event would be written at once, for 0.2 ms. Those of
-- the months ahead are empty, and the first filters of the others are made anew by vacuum.
select brin_desummarize_range(indexrelid, 0)
  from pg_index join pg_class c on c.oid = indexrelid join pg_am on pg_am.oid = c.relam
 where amname = 'brin' and indrelid in (select inhrelid from pg_inherits where inhparent = 'events'::regclass);

-- Identifiers of a hundred licenses do not get smaller: the row is kept as it is instead of trying to.
alter table usage_changes set (toast_tuple_target = 8160);
