/** The audit log, for operators. */
import { route } from "../frame/api/route.ts";
import { listRoutes } from "../frame/console/list_page.tsx";
import type { Thing } from "../frame/thing.ts";
import { AUDIT } from "./audit.tsx";
import { followAuditOperation } from "./audit_routes.ts";

export const audit: Thing = {
  label: "Audit",
  pages: listRoutes(AUDIT),
  api: [route("GET", "/audit", "audit:read", followAuditOperation)],
};
