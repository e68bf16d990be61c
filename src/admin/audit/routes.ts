/** The audit log, for operators. */
import { route } from "../frame/api/route.ts";
import { page } from "../frame/console/route.ts";
import type { Thing } from "../frame/thing.ts";
import { auditPage } from "./audit.tsx";
import { followAuditOperation } from "./audit_routes.ts";

export const audit: Thing = {
  label: "Audit",
  pages: [page("/audit", "audit:read", auditPage)],
  api: [route("GET", "/audit", "audit:read", followAuditOperation)],
};
