/** Every page of the console below `/console`, with the scope that a role needs for it. */
import type { Context } from "hono";
import type { Refusal } from "../../refusal.ts";
import type { AdminEnv } from "../options.ts";
import { logOut } from "./log_in.ts";
import type { Need } from "./may.ts";
import type { Page } from "./page.tsx";
import { auditPage } from "./pages/audit.tsx";
import { issueFormPage, issueKeyOfForm } from "./pages/issue.tsx";
import { keysPage } from "./pages/keys.tsx";
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
  route("GET", "/keys", "keys:read", keysPage),
  route("GET", "/keys/issue", "keys:issue", issueFormPage),
  route("POST", "/keys/issue", "keys:issue", issueKeyOfForm),
  route("GET", "/audit", "audit:read", auditPage),
  route("POST", "/logout", "any", logOut),
];

function route(
  method: ConsoleRoute["method"],
  path: string,
  ...[scope, answer]: readonly [ConsoleRoute["scope"], ConsoleRoute["answer"]]
): ConsoleRoute {
  return { method, path, scope, answer };
}
