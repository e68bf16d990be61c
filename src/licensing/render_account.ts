import { toTimestamp } from "../calendar.ts";
import type { Account } from "./accounts.ts";

/** Renders an account as JSON for operators: commands and the API show the same fields. */
export function renderAccount(account: Account) {
  return {
    id: account.id,
    email: account.email,
    name: account.name,
    organization: account.organization,
    keys: account.keys,
    created_at: toTimestamp(account.createdAt),
  };
}
