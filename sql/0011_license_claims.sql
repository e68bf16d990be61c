-- A claim belongs to a license, so that an event which is sent again with the rotated key is known. The license's id
-- stands where the key's id stood: an index of its own would have to be built while every event waits.

-- False in a claim of an earlier version: key_id is the key's id, and event_hash is the hash of the whole event. True:
-- key_id is the license's id, and event_hash has a part for each field.
alter table claims add column by_license boolean not null default false;
