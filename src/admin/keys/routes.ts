/** Keys and their licenses, for operators. */
import { route } from "../frame/api/route.ts";
import { actionRoutes } from "../frame/console/action.ts";
import { listRoutes } from "../frame/console/list_page.tsx";
import { form, page } from "../frame/console/route.ts";
import type { Thing } from "../frame/thing.ts";
import { issueFormPage, issueKeyOfForm } from "./issue.tsx";
import { KEY_PAGE } from "./key.tsx";
import { resume, revoke, rotate, suspend } from "./key_changes_routes.ts";
import { listKeysOperation } from "./key_list_routes.ts";
import { KEYS } from "./keys.tsx";
import {
  explainKeyOperation,
  findKeyOperation,
  getKey,
  getKeyUsage,
  issueKeyOperation,
} from "./keys_routes.ts";
import { getLicense, updateLicense } from "./licenses_routes.ts";
import { exportLicense } from "./signed_license_routes.ts";

export const keys: Thing = {
  label: "Keys",
  pages: [
    ...listRoutes(KEYS),
    page("/keys/issue", "keys:issue", issueFormPage),
    form("/keys/issue", "keys:issue", issueKeyOfForm),
    ...actionRoutes(KEY_PAGE, "keys:read"),
  ],
  api: [
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
  ],
};
