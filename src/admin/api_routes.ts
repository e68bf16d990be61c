/** Every route of the API below `/admin/v1`, with the scope that a token needs for it. */

import { whoami } from "./access/service_routes.ts";
import {
  changeAccount,
  eraseAccountOperation,
  getAccount,
  getAccountUsage,
  listAccountsOperation,
  renewAccountOperation,
} from "./accounts/accounts_routes.ts";
import { findActivityOperation } from "./activity/activity_routes.ts";
import { followAuditOperation } from "./audit/audit_routes.ts";
import { openApiDocument } from "./frame/api/document_routes.ts";
import type { Operation } from "./frame/api/operation.ts";
import type { Route } from "./frame/api/route.ts";
import { getStatus } from "./health/status_routes.ts";
import { resume, revoke, rotate, suspend } from "./keys/key_changes_routes.ts";
import { listKeysOperation } from "./keys/key_list_routes.ts";
import {
  explainKeyOperation,
  findKeyOperation,
  getKey,
  getKeyUsage,
  issueKeyOperation,
} from "./keys/keys_routes.ts";
import { getLicense, updateLicense } from "./keys/licenses_routes.ts";
import { exportLicense } from "./keys/signed_license_routes.ts";
import {
  addModelOperation,
  getModel,
  listModelsOperation,
  removeModelOperation,
  retireModelVersion,
} from "./models/models_routes.ts";
import { getFigures, listUsageByDay } from "./usage/statistics_routes.ts";
import { listUsageOperation } from "./usage/usage_routes.ts";

const getOpenApi = openApiDocument(() => ROUTES);

export const ROUTES: readonly Route[] = [
  route("GET", "/keys", "keys:read", listKeysOperation),
  route("POST", "/keys", "keys:issue", issueKeyOperation),
  route("POST", "/keys/find", "keys:read", findKeyOperation),
  route("GET", "/keys/:id", "keys:read", getKey),
  route("GET", "/keys/:id/why", "keys:read", explainKeyOperation),
  route("GET", "/keys/:id/usage", "keys:read", getKeyUsage),
  route("POST", "/keys/:id/license", "keys:issue", exportLicense),
  route("POST", "/keys/:id/suspend", "keys:manage", suspend),
  route("POST", "/keys/:id/resume", "keys:manage", resume),
  route("POST", "/keys/:id/rotate", "keys:manage", rotate),
  route("POST", "/keys/:id/revoke", "keys:revoke", revoke),
  route("GET", "/licenses/:id", "keys:read", getLicense),
  route("PATCH", "/licenses/:id", "keys:manage", updateLicense),
  route("GET", "/accounts", "accounts:read", listAccountsOperation),
  route("GET", "/accounts/:id", "accounts:read", getAccount),
  route("GET", "/accounts/:id/usage", "usage:read", getAccountUsage),
  route("PATCH", "/accounts/:id", "accounts:write", changeAccount),
  route("POST", "/accounts/:id/renew", "keys:manage", renewAccountOperation),
  route("POST", "/accounts/:id/erase", "accounts:erase", eraseAccountOperation),
  route("GET", "/usage", "usage:read", listUsageOperation),
  route("GET", "/usage/daily", "usage:read", listUsageByDay),
  route("GET", "/figures", "usage:read", getFigures),
  route("GET", "/models", "models:read", listModelsOperation),
  route("POST", "/models", "models:write", addModelOperation),
  route("GET", "/models/:name", "models:read", getModel),
  route("DELETE", "/models/:name", "models:write", removeModelOperation),
  route("POST", "/models/:name/:version/retire", "models:write", retireModelVersion),
  route("GET", "/audit", "audit:read", followAuditOperation),
  route("GET", "/activity", "status:read", findActivityOperation),
  route("GET", "/status", "status:read", getStatus),
  route("GET", "/whoami", "any", whoami),
  route("GET", "/openapi.json", "any", getOpenApi),
];

function route(
  method: Route["method"],
  path: string,
  ...[scope, operation]: readonly [Route["scope"], Operation]
): Route {
  return { method, path, scope, operation };
}
