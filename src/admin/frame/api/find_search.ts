import type { Database } from "../../../database/mod.ts";
import { type Search, searchAccounts, TOO_MANY_MATCH } from "../../../licensing/mod.ts";
import { type Refusal, refuse } from "../../../refusal.ts";

/**
 * Searches for the parameter `search` of a list. Refuses a text that too many accounts match: a program would not see
 * that the list is incomplete.
 */
export async function findSearch(
  database: Database,
  text: string | undefined,
): Promise<Search | undefined | Refusal> {
  const search = text === undefined ? undefined : await searchAccounts(database, text);
  if (!search?.isTooWide) return search;
  const error = `${TOO_MANY_MATCH}: search for more or longer words`;
  return refuse("INVALID_REQUEST", `Cannot search: ${error}`, { fields: [{ field: "search", error }] });
}
