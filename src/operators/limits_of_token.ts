import { SCOPES } from "./scopes.ts";
import type { ListedToken } from "./token_life.ts";

/** The limits of a token in words, as commands and the console show them. */
export interface TokenLimits {
  /** Such as `keys:read, keys:issue`, `all`, or `all but keys:revoke`. */
  readonly scopes: string;
  readonly tiers: string;
  readonly mode: string;
  /** The addresses and networks. */
  readonly from: string;
}

/** Returns the limits of a token, in words. */
export function limitsOfToken({
  scopes,
  restriction: { tiers, mode },
  sources,
}: Pick<ListedToken, "scopes" | "restriction" | "sources">): TokenLimits {
  const missing = SCOPES.filter((scope) => !scopes.includes(scope));
  const list = missing.length < scopes.length ? `all but ${missing.join(", ")}` : scopes.join(", ");
  return {
    scopes: missing.length === 0 ? "all" : list,
    tiers: tiers?.join(", ") ?? "all",
    mode: mode ?? "both",
    from: sources?.join(", ") ?? "everywhere",
  };
}
