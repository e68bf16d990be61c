/** Accounts, for operators. */
import { route } from "../frame/api/route.ts";
import { actionRoutes } from "../frame/console/action.ts";
import { listRoutes } from "../frame/console/list_page.tsx";
import type { Thing } from "../frame/thing.ts";
import { ACCOUNT_PAGE } from "./account.tsx";
import { ACCOUNTS } from "./accounts.tsx";
import {
  changeAccount,
  eraseAccountOperation,
  getAccount,
  getAccountUsage,
  listAccountsOperation,
  renewAccountOperation,
} from "./accounts_routes.ts";

export const accounts: Thing = {
  label: "Accounts",
  pages: [...listRoutes(ACCOUNTS), ...actionRoutes(ACCOUNT_PAGE, "accounts:read")],
  api: [
    route("GET", "/accounts", "accounts:read", listAccountsOperation),
    route("GET", "/accounts/:id", "accounts:read", getAccount),
    route("GET", "/accounts/:id/usage", "usage:read", getAccountUsage),
    route("PATCH", "/accounts/:id", "accounts:write", changeAccount),
    route("POST", "/accounts/:id/renew", "keys:manage", renewAccountOperation),
    route("POST", "/accounts/:id/erase", "accounts:erase", eraseAccountOperation),
  ],
};
