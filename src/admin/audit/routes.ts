/** The audit log, for operators. */
import { listRoutes } from "../frame/console/list_page.tsx";
import type { Thing } from "../frame/thing.ts";
import { AUDIT } from "./audit.tsx";
import { followAuditRoute } from "./audit_routes.ts";

export const audit: Thing = {
  label: "Audit",
  pages: listRoutes(AUDIT),
  api: [followAuditRoute],
};
