-- The counts of too many requests are kept for 25 hours, and read by time: see src/keys/too_many_requests.ts.
-- runs with 27

-- A count never changes its time, so an update of the row does not touch this index.
drop index concurrently if exists too_many_requests_began_at;

create index concurrently too_many_requests_began_at on too_many_requests (began_at);
