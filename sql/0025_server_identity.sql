-- Which server this is, for what must notice that another one answers: the pulse (src/keys/pulse.ts) and the positions
-- of the audit log (src/audit/follow_audit.ts). The text is the identifier of the cluster and its timeline, which
-- changes with a promotion. Some services (Aurora) refuse the functions of the write-ahead log. There the time of the server's
-- start stands in place of the timeline, so each start makes another server. A standby raises an error.
create or replace function server_identity() returns text language plpgsql as $$
declare
  timeline text;
begin
  if pg_is_in_recovery() then
    raise exception 'this server is a standby' using errcode = 'object_not_in_prerequisite_state';
  end if;
  begin
    timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
  exception when insufficient_privilege or feature_not_supported then
    timeline := extract(epoch from pg_postmaster_start_time());
  end;
  return concat_ws(' ', (select system_identifier from pg_control_system()), timeline);
end
$$;
