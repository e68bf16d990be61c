-- The rate windows of keys that several processes share, with CLAVIGER_RATE_LIMITS=shared. See src/shared_windows.
-- Unlogged, because a count is worth nothing after its minute: after a crash or a promotion the table is empty.
create unlogged table if not exists shared_windows (
  key_id uuid,
  endpoint text,
  -- The limit by which the last requests were counted.
  most integer not null,
  -- The last second in which requests were counted or asked for, since 1970.
  newest_second bigint not null,
  -- The requests in each of the 61 seconds up to the newest: those of second s have the index s % 61 + 1.
  counts integer[] not null,
  total integer not null,
  -- How many of the last requests were admitted.
  granted integer not null,
  -- The second of each request to take back, in a row that a statement proposes. It means nothing in a stored row.
  taken_back bigint[],
  constraint shared_windows_pkey primary key (key_id, endpoint)
) with (fillfactor = 50);

-- Takes requests back that still count, and then counts as many of the wanted ones as there is room for, now by the
-- clock of this server. A request in second s counts through second s + 60. If the clock steps back by up to a minute,
-- the window stands still until the clock has caught up; after a larger step the window begins anew.
create or replace function count_requests(past shared_windows, wanted integer, most integer, taken_back bigint[])
returns shared_windows language plpgsql as $$
declare
  now bigint := floor(extract(epoch from clock_timestamp()));
  second bigint;
  slot integer;
begin
  if past.counts is null or abs(now - past.newest_second) > 60 then
    past.newest_second := now;
    past.counts := array_fill(0, array[61]);
    past.total := 0;
  end if;
  while past.newest_second < now loop
    past.newest_second := past.newest_second + 1;
    slot := past.newest_second % 61 + 1;
    past.total := past.total - past.counts[slot];
    past.counts[slot] := 0;
  end loop;
  foreach second in array coalesce(taken_back, '{}') loop
    slot := second % 61 + 1;
    if past.newest_second - second between 0 and 60 and past.counts[slot] > 0 then
      past.counts[slot] := past.counts[slot] - 1;
      past.total := past.total - 1;
    end if;
  end loop;
  slot := past.newest_second % 61 + 1;
  past.most := most;
  past.granted := greatest(least(wanted, most - past.total), 0);
  past.counts[slot] := past.counts[slot] + past.granted;
  past.total := past.total + past.granted;
  past.taken_back := null;
  return past;
end
$$;

-- Returns the first second in which fewer than `most` of the requests count; null if there is room now.
create or replace function room_second(counted shared_windows) returns bigint language plpgsql as $$
declare
  left_over integer := counted.total;
  second bigint := counted.newest_second - 61;
begin
  if left_over < counted.most then
    return null;
  end if;
  while left_over >= counted.most and second < counted.newest_second loop
    second := second + 1;
    left_over := left_over - counted.counts[second % 61 + 1];
  end loop;
  return second + 61;
end
$$;

-- Returns the last second whose requests count; null if none count.
create or replace function last_second(counted shared_windows) returns bigint language plpgsql as $$
begin
  for second in reverse counted.newest_second .. counted.newest_second - 60 loop
    if counted.counts[second % 61 + 1] > 0 then
      return second;
    end if;
  end loop;
  return null;
end
$$;

-- How the process counts the requests of a key; null for a program that does not say it.
alter table processes add column if not exists rate_limits text;
