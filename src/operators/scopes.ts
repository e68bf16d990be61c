/**
 * The scopes: the rights of a token or an operator. A route names the scope that it needs; a role is a set of scopes.
 */
import { isRestricted, type Restriction } from "../licensing/mod.ts";

/** What each scope lets a program do, in the order of the manual. */
export const SCOPE_MEANINGS = {
  "keys:read": "see keys, their use and their refusals",
  "keys:issue": "issue keys and license files",
  "keys:manage": "change, suspend, rotate, replace and renew keys",
  "keys:revoke": "revoke keys",
  "accounts:read": "see accounts",
  "accounts:join": "issue keys for existing accounts; only a token with tiers or a mode needs it",
  "accounts:write": "change accounts",
  "accounts:erase": "erase people",
  "machines:read": "see machines",
  "machines:release": "release machines",
  "machines:free": "free places that signed licenses hold",
  "usage:read": "see the use and the figures of all customers",
  "usage:import":
    "import reports of use from machines without a network; the answer names the customer of the report",
  "models:read": "see models",
  "models:write": "add, upload, retire and remove models",
  "notices:read": "see notices",
  "notices:change": "mark notices as done, put them off, and mute licenses and accounts",
  "audit:read": "see who changed what; rows about notices name the customer by e-mail",
  "status:read": "see health, requests and refusals",
} as const;

export type Scope = keyof typeof SCOPE_MEANINGS;

export const SCOPES = Object.keys(SCOPE_MEANINGS) as readonly Scope[];

/** The scopes that a restricted token can have. `accounts:join` lets it issue keys for accounts that exist already. */
export const SCOPES_OF_RESTRICTED: readonly Scope[] = SCOPES.filter(
  (scope) => scope.startsWith("keys:") || scope === "accounts:join",
);

/** The rule for these scopes, as a phrase for messages. */
export const SCOPES_RULE = `a token that is restricted to tiers or to a mode can have only ${SCOPES_OF_RESTRICTED.join(", ")}`;

/** Tells whether a restricted token has other scopes, too. Older versions issued such tokens. */
export function isTooWide(restriction: Restriction, scopes: readonly Scope[]): boolean {
  return isRestricted(restriction) && !scopes.every((scope) => SCOPES_OF_RESTRICTED.includes(scope));
}

/** Every role, from the lowest to the highest. */
export const ROLES = ["viewer", "editor", "admin"] as const;

export type Role = (typeof ROLES)[number];

const READING = SCOPES.filter((scope) => scope.endsWith(":read"));

/** In words: {@linkcode ROLE_MEANINGS}. */
const SCOPES_OF_ROLES: Readonly<Record<Role, readonly Scope[]>> = {
  viewer: READING,
  editor: [
    ...READING,
    "keys:issue",
    "keys:manage",
    "accounts:write",
    "machines:release",
    "usage:import",
    "models:write",
    "notices:change",
  ],
  admin: SCOPES,
};

/** What each role may do, beyond the one before, as the manual says it, too. */
export const ROLE_MEANINGS: Readonly<Record<Role, string>> = {
  viewer: "sees everything except tokens and other operators, and ends its own sessions",
  editor:
    "also issues and changes keys, changes accounts and models, releases machines, imports reports of use, and marks notices as done, puts them off and mutes them",
  admin:
    "also revokes keys, erases accounts, frees places that signed licenses hold, and manages operators, sessions and tokens",
};

/** Returns the scopes of a role. */
export function scopesOf(role: Role): readonly Scope[] {
  return SCOPES_OF_ROLES[role];
}
