/** Every page of the console below `/console`, with the scope that a role needs for it. */
import type { Context } from "hono";
import type { Refusal } from "../refusal.ts";
import { accessPage } from "./access/access.tsx";
import {
  endSessionOfForm,
  removeOperatorOfForm,
  revokeTokenOfForm,
  setRoleOfForm,
} from "./access/access_change.ts";
import { operatorPage } from "./access/operator.tsx";
import { tokenPage } from "./access/token.tsx";
import { accountPage } from "./accounts/account.tsx";
import { changeAccountOfForm, eraseAccountOfForm, renewAccountOfForm } from "./accounts/account_changes.ts";
import { accountsPage } from "./accounts/accounts.tsx";
import { activityPage } from "./activity/activity.tsx";
import { auditPage } from "./audit/audit.tsx";
import { logOut } from "./frame/console/log_in.ts";
import type { Need } from "./frame/console/may.ts";
import type { Page } from "./frame/console/page.tsx";
import type { Visit } from "./frame/console/visit.ts";
import type { AdminEnv } from "./frame/options.ts";
import { healthPage } from "./health/health.tsx";
import { issueFormPage, issueKeyOfForm } from "./keys/issue.tsx";
import { changeKey, keyPage } from "./keys/key.tsx";
import { exportLicenseOfForm, rotateKeyOfForm } from "./keys/key_given.tsx";
import { keysCsv, keysPage } from "./keys/keys.tsx";
import { modelPage, removeModelOfForm, retireModelOfForm } from "./models/model.tsx";
import { modelsPage } from "./models/models.tsx";
import { overviewPage } from "./overview/overview.tsx";
import { usageCsv, usagePage } from "./usage/usage.tsx";

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
