import type { Need } from "./may.ts";

/** The pages in the menu; an operator sees those that the role may open. */
export const MENU: readonly { readonly label: string; readonly path: string; readonly scope: Need }[] = [
  { label: "Overview", path: "/console/overview", scope: "usage:read" },
  { label: "Keys", path: "/console/keys", scope: "keys:read" },
  { label: "Accounts", path: "/console/accounts", scope: "accounts:read" },
  { label: "Usage", path: "/console/usage", scope: "usage:read" },
  { label: "Activity", path: "/console/activity", scope: "status:read" },
  { label: "Models", path: "/console/models", scope: "models:read" },
  { label: "Audit", path: "/console/audit", scope: "audit:read" },
  { label: "Health", path: "/console/health", scope: "status:read" },
  { label: "Access", path: "/console/access", scope: "any" },
];
