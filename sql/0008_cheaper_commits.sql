-- What made the commit of events expensive and need not be.

-- The limit in force when the license was charged last, null for unlimited. An upsert's update branch sees
-- of its statement only the row that was to be inserted: without this it looked every license up again.
alter table usage add column limited_to bigint;

-- Keys come in any order, so every event went to another page of a b-tree: 3 µs an event, and a page image
-- each after a checkpoint. This one keeps a filter of the keys for each 128 pages, made by vacuum.
drop index events_key_time;
create index events_key_time on events using brin (received_at, key_id uuid_bloom_ops);

-- Identifiers of a hundred licenses do not get smaller: the row is kept as it is instead of trying to.
alter table usage_changes set (toast_tuple_target = 8160);
