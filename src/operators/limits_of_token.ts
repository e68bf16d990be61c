import { isRestricted, mayJoin, type Restriction } from "../licensing/mod.ts";
import { SCOPES } from "./scopes.ts";
import type { ListedToken } from "./token_life.ts";

/** Returns what the restriction of a token means, as sentences without the last period; undefined without a restriction. */
export function meaningOf(restriction: Restriction): string | undefined {
  if (!isRestricted(restriction)) return undefined;
  const meaning = "The token sees, changes and issues only keys of its tiers and its mode";
  return mayJoin(restriction)
    ? `${meaning}. It adds keys to existing accounts: send only an e-mail that you have verified`
    : `${meaning}. For an e-mail that has an account it issues no key: that needs the scope accounts:join`;
}

/**
 * Returns the limits of a token in words, as commands and the console show them. The scopes are such as
 * `keys:read, keys:issue`, `all`, or `all but keys:revoke`; `from` are the addresses and networks.
 */
export function limitsOfToken({
  scopes,
  restriction: { tiers, mode },
  sources,
}: Pick<ListedToken, "scopes" | "restriction" | "sources">) {
  // Without a restriction `accounts:join` changes nothing.
  const missing = SCOPES.filter((scope) => scope !== "accounts:join" && !scopes.includes(scope));
  const list = missing.length < scopes.length ? `all but ${missing.join(", ")}` : scopes.join(", ");
  return {
    scopes: missing.length === 0 ? "all" : list,
    tiers: tiers?.join(", ") ?? "all",
    mode: mode ?? "both",
    from: sources?.join(", ") ?? "everywhere",
  };
}
