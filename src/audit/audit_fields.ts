/** The fields of a row of the audit log in answers to operators. */
import * as v from "valibot";
import { count, fieldsOf, identifier, oneOfThese, renderFields, timestamp } from "../base/answer_fields.ts";
import { toTimestamp } from "../base/calendar.ts";
import { DOORS } from "./actor.ts";
import type { AuditRow } from "./list_audit.ts";

const field = fieldsOf<AuditRow>();
const TEXT = v.nullable(v.string());
const VALUES = v.nullable(v.record(v.string(), v.unknown()));

export const AUDIT_FIELDS = {
  id: field(
    count(1),
    ({ id }) => id,
    "The number of the row. A restored database gives it again, to another row",
  ),
  at: field(timestamp(), ({ at }) => toTimestamp(at)),
  actor: field(v.pipe(v.string(), v.examples(["token:shop"])), ({ actor }) => actor),
  door: field(v.nullable(oneOfThese(Object.values(DOORS))), ({ door }) => door),
  action: field(v.pipe(v.string(), v.examples(["key.revoke"])), ({ action }) => action),
  user_id: field(v.nullable(identifier("usr")), ({ userId }) => userId),
  license_id: field(v.nullable(identifier("lic")), ({ licenseId }) => licenseId),
  key_id: field(v.nullable(identifier("key")), ({ keyId }) => keyId),
  before: field(VALUES, ({ before }) => before),
  after: field(VALUES, ({ after }) => after),
  reason: field(TEXT, ({ reason }) => reason),
  request: field(TEXT, ({ request }) => request),
  address: field(TEXT, ({ address }) => address),
  unique_id: field(
    v.nullable(identifier("aud")),
    ({ uniqueId }) => uniqueId,
    "No other row ever has it, also after a restore; null for a row that a version before 0.6 wrote",
  ),
} as const;

/** Renders a row of the audit log as JSON, for `--json` of the command and for the API. */
export function renderAuditRow(row: AuditRow) {
  return renderFields(AUDIT_FIELDS, row);
}
