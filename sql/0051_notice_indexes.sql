-- The orders in which the upkeep finds the ends of licenses, of their updates and of rotated keys (see src/notices). Only operators
-- change an end.
-- runs with 27

drop index concurrently if exists licenses_end;

create index concurrently licenses_end on licenses (expires_at, id);

drop index concurrently if exists licenses_updates_end;

create index concurrently licenses_updates_end on licenses (updates_until, id) where updates_until is not null;

drop index concurrently if exists keys_own_end;

create index concurrently keys_own_end on keys (own_expires_at, id) where own_expires_at is not null;
