-- Events that clients send late and together (see src/clients/batch_routes.ts).
-- runs with 27

-- When the event happened; null for an event that was sent alone, which counts when it was received. The month and the day
-- of this time are charged. The events of a month's table are still those that were received in the month.
alter table events add column occurred_at timestamptz;

-- As the client sent it, which may be some minutes ahead; null for the claim of an event that was sent alone. Claims with
-- this time live for 8 days, and the others for one.
alter table claims add column occurred_at timestamptz;
