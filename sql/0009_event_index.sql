-- Named as what it holds is ordered.
alter index events_key_time rename to events_time_key;

-- On an empty table it begins with a filter, into which each event would be written at once, for 0.2 ms. Those of
-- the months ahead are empty, and the first filters of the others are made anew by vacuum.
select brin_desummarize_range(indexrelid, 0)
  from pg_index join pg_class c on c.oid = indexrelid join pg_am on pg_am.oid = c.relam
 where amname = 'brin' and indrelid in (select inhrelid from pg_inherits where inhparent = 'events'::regclass);
