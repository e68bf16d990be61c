/**
 * The audit log: who changed what, when, the values before and after, and why. Rows are never changed or deleted.
 *
 * The statement that makes a change also writes its row, so there is no change without a row. Therefore this room gives
 * other rooms a CTE for their statements. Failed logins have rows, too, although they change nothing.
 *
 * Who acts is an {@linkcode Actor}, and {@linkcode Right} tells whether the actor may still act when a long request ends.
 */
export { ACTIONS, type AuditAction, wordsOf } from "./actions.ts";
export {
  ACTOR_OR_NAME,
  ACTOR_TEXT,
  type Actor,
  actorsOf,
  type By,
  DOORS,
  describeActor,
  NEEDED_REASON_TEXT,
  nameOfActor,
  REASON_TEXT,
  UPKEEP,
} from "./actor.ts";
export { auditCte } from "./audit_cte.ts";
export { AUDIT_FIELDS, renderAuditRow } from "./audit_fields.ts";
export { AUDIT_CONDITIONS, type AuditFilter } from "./audit_filter.ts";
export { type AuditWaits, createAuditWaits, MOST_WAITING } from "./audit_waits.ts";
export { describeChanges, type FieldChange } from "./describe_changes.ts";
export {
  AUDIT_POSITION,
  type AuditPart,
  type FollowedAuditRow,
  findAuditEnd,
  followAudit,
} from "./follow_audit.ts";
export {
  AUDIT_ID,
  type AuditRow,
  countAudit,
  countImport,
  findAuditPosition,
  type ListedAuditRow,
  listAudit,
  PAGE_POSITION,
} from "./list_audit.ts";
export { isHeld, type Right } from "./right.ts";
