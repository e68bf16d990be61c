/** Keys and their licenses, for operators. */
import { detailRoutes } from "../frame/console/detail_page.tsx";
import { listRoutes } from "../frame/console/list_page.tsx";
import { form, page } from "../frame/console/route.ts";
import type { Thing } from "../frame/thing.ts";
import { makeBundleRoute } from "./bundle_route.ts";
import { issueFormPage, issueKeyOfForm } from "./issue.tsx";
import { KEY_PAGE } from "./key.tsx";
import { KEY_CHANGE_ROUTES } from "./key_changes_routes.ts";
import { listKeysRoute } from "./key_list_routes.ts";
import { KEYS } from "./keys.tsx";
import { KEY_ROUTES } from "./keys_routes.ts";
import { LICENSE_PAGE } from "./license.tsx";
import { exportLicenseRoute, LICENSE_ROUTES, moveLicenseRoute } from "./licenses_routes.ts";
import { MANY_ROUTES } from "./many_keys.tsx";

export const keys: Thing = {
  label: "Keys",
  pages: [
    ...listRoutes(KEYS),
    page("/keys/issue", "keys:issue", issueFormPage),
    form("/keys/issue", "keys:issue", issueKeyOfForm),
    ...MANY_ROUTES,
    ...detailRoutes(KEY_PAGE),
    ...detailRoutes(LICENSE_PAGE),
  ],
  api: [
    listKeysRoute,
    ...KEY_ROUTES,
    exportLicenseRoute,
    makeBundleRoute,
    ...KEY_CHANGE_ROUTES,
    ...LICENSE_ROUTES,
    moveLicenseRoute,
  ],
};
