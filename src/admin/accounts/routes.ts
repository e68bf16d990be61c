/** Accounts, for operators. */
import { actionRoutes } from "../frame/console/action.ts";
import { listRoutes } from "../frame/console/list_page.tsx";
import type { Thing } from "../frame/thing.ts";
import { ACCOUNT_PAGE } from "./account.tsx";
import { ACCOUNTS } from "./accounts.tsx";
import { ACCOUNT_ROUTES } from "./accounts_routes.ts";

export const accounts: Thing = {
  label: "Accounts",
  pages: [...listRoutes(ACCOUNTS), ...actionRoutes(ACCOUNT_PAGE, "accounts:read")],
  api: ACCOUNT_ROUTES,
};
