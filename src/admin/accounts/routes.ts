/** Accounts, for operators. */
import { detailRoutes } from "../frame/console/detail_page.tsx";
import { listRoutes } from "../frame/console/list_page.tsx";
import type { Thing } from "../frame/thing.ts";
import { ACCOUNT_PAGE } from "./account.tsx";
import { ACCOUNTS } from "./accounts.tsx";
import { ACCOUNT_ROUTES } from "./accounts_routes.ts";
import { ERASURE_PAGE } from "./erasure.tsx";

export const accounts: Thing = {
  label: "Accounts",
  pages: [...listRoutes(ACCOUNTS), ...detailRoutes(ACCOUNT_PAGE), ...detailRoutes(ERASURE_PAGE)],
  api: ACCOUNT_ROUTES,
};
