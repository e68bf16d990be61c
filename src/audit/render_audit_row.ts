import { toTimestamp } from "../calendar.ts";
import type { AuditRow } from "./list_audit.ts";

/** Renders a row of the audit log as JSON for operators: commands and the API show the same fields. */
export function renderAuditRow(row: AuditRow) {
  return {
    id: row.id,
    at: toTimestamp(row.at),
    actor: row.actor,
    door: row.door,
    action: row.action,
    user_id: row.userId,
    license_id: row.licenseId,
    key_id: row.keyId,
    before: row.before,
    after: row.after,
    reason: row.reason,
    request: row.request,
    address: row.address,
  };
}
