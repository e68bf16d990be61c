/** Every page of the console below `/console`, with the scope that a role needs for it. */
import type { Context } from "hono";
import type { Refusal } from "../../refusal.ts";
import type { AdminEnv } from "../options.ts";
import { endSessionOfForm, removeOperatorOfForm, revokeTokenOfForm, setRoleOfForm } from "./access_change.ts";
import { logOut } from "./log_in.ts";
import type { Need } from "./may.ts";
import type { Page } from "./page.tsx";
import { accessPage } from "./pages/access.tsx";
import { accountPage } from "./pages/account.tsx";
import { changeAccountOfForm, eraseAccountOfForm, renewAccountOfForm } from "./pages/account_changes.ts";
import { accountsPage } from "./pages/accounts.tsx";
import { activityPage } from "./pages/activity.tsx";
import { auditPage } from "./pages/audit.tsx";
import { healthPage } from "./pages/health.tsx";
import { issueFormPage, issueKeyOfForm } from "./pages/issue.tsx";
import { changeKey, keyPage } from "./pages/key.tsx";
import { exportLicenseOfForm, rotateKeyOfForm } from "./pages/key_given.tsx";
import { keysCsv, keysPage } from "./pages/keys.tsx";
import { modelPage, removeModelOfForm, retireModelOfForm } from "./pages/model.tsx";
import { modelsPage } from "./pages/models.tsx";
import { operatorPage } from "./pages/operator.tsx";
import { overviewPage } from "./pages/overview.tsx";
import { tokenPage } from "./pages/token.tsx";
import { usageCsv, usagePage } from "./pages/usage.tsx";
import type { Visit } from "./visit.ts";

export interface ConsoleRoute {
  readonly method: "GET" | "POST";
  /** As Hono writes paths: `/keys/:id`. */
  readonly path: string;
  readonly scope: Need;
  answer(visit: Visit, c: Context<AdminEnv>): Page | Response | Refusal | Promise<Page | Response | Refusal>;
}

/** The first page is shown after the login. */
export const CONSOLE_ROUTES: readonly [ConsoleRoute, ...ConsoleRoute[]] = [
  route("GET", "/overview", "usage:read", overviewPage),
  route("GET", "/keys", "keys:read", keysPage),
  route("GET", "/keys.csv", "keys:read", keysCsv),
  route("GET", "/keys/issue", "keys:issue", issueFormPage),
  route("POST", "/keys/issue", "keys:issue", issueKeyOfForm),
  route("GET", "/keys/:id", "keys:read", (visit) => keyPage(visit)),
  route("POST", "/keys/:id/suspend", "keys:manage", changeKey("suspend")),
  route("POST", "/keys/:id/resume", "keys:manage", changeKey("resume")),
  route("POST", "/keys/:id/renew", "keys:manage", changeKey("renew")),
  route("POST", "/keys/:id/tier", "keys:manage", changeKey("tier")),
  route("POST", "/keys/:id/limit", "keys:manage", changeKey("limit")),
  route("POST", "/keys/:id/external-id", "keys:manage", changeKey("external-id")),
  route("POST", "/keys/:id/rotate", "keys:manage", rotateKeyOfForm),
  route("POST", "/keys/:id/license", "keys:issue", exportLicenseOfForm),
  route("POST", "/keys/:id/revoke", "keys:revoke", changeKey("revoke")),
  route("GET", "/accounts", "accounts:read", accountsPage),
  route("GET", "/accounts/:id", "accounts:read", (visit) => accountPage(visit)),
  route("POST", "/accounts/:id/change", "accounts:write", changeAccountOfForm),
  route("POST", "/accounts/:id/renew", "keys:manage", renewAccountOfForm),
  route("POST", "/accounts/:id/erase", "accounts:erase", eraseAccountOfForm),
  route("GET", "/models", "models:read", modelsPage),
  route("GET", "/models/:name", "models:read", (visit) => modelPage(visit)),
  route("POST", "/models/:name/remove", "models:write", removeModelOfForm),
  route("POST", "/models/:name/retire", "models:write", retireModelOfForm),
  route("GET", "/audit", "audit:read", auditPage),
  route("GET", "/health", "status:read", healthPage),
  route("GET", "/usage", "usage:read", usagePage),
  route("GET", "/usage.csv", "usage:read", usageCsv),
  route("GET", "/activity", "status:read", activityPage),
  route("GET", "/access", "any", accessPage),
  route("POST", "/access/sessions/:id/end", "any", endSessionOfForm),
  route("GET", "/access/operators/:name", "admin", (visit) => operatorPage(visit)),
  route("POST", "/access/operators/:name/role", "admin", setRoleOfForm),
  route("POST", "/access/operators/:name/remove", "admin", removeOperatorOfForm),
  route("GET", "/access/tokens/:name", "admin", (visit) => tokenPage(visit)),
  route("POST", "/access/tokens/:name/revoke", "admin", revokeTokenOfForm),
  route("POST", "/logout", "any", logOut),
];

function route(
  method: ConsoleRoute["method"],
  path: string,
  ...[scope, answer]: readonly [ConsoleRoute["scope"], ConsoleRoute["answer"]]
): ConsoleRoute {
  return { method, path, scope, answer };
}
