/**
 * The audit log: who changed what, when, from what to what, and why. It only grows.
 *
 * A row is written by the very statement that makes the change, so neither can be without the other; what
 * this room gives to the others is therefore the part of a statement that writes it.
 */
export { type Actor, type AuditCte, auditCte } from "./audit_cte.ts";
export { type AuditFilter, type AuditRow, listAudit } from "./list_audit.ts";
