/** Presets of tokens: the scopes that common programs need, so that nobody has to know every scope. A token keeps only its scopes. */
import { SCOPES, type Scope } from "./scopes.ts";

interface Preset {
  /** What the program does, and what its token cannot do, as a phrase after its name. */
  readonly meaning: string;
  readonly scopes: readonly Scope[];
}

/** In the order of the manual. */
const TABLE = {
  // Only scopes that a restricted token can have: the token of a shop should be limited to the tiers that it sells.
  shop: {
    meaning:
      "sells licenses: issues keys for new and returning customers, renews and upgrades licenses, and also changes, suspends " +
      "and rotates keys; it revokes none; limit it to the tiers that the shop sells",
    scopes: ["keys:read", "keys:issue", "keys:manage", "accounts:join"],
  },
  monitoring: {
    meaning: "watches health, requests, refusals and the use of all customers; it changes nothing",
    scopes: ["usage:read", "status:read"],
  },
  pipeline: {
    meaning: "adds, uploads, retires and removes models; it sees no customer",
    scopes: ["models:read", "models:write"],
  },
  crm: {
    meaning:
      "sees customers, what they have and what they use, and keeps their names and e-mails up to date; it issues and changes " +
      "no key",
    scopes: ["keys:read", "accounts:read", "accounts:write", "machines:read", "usage:read"],
  },
} as const satisfies Readonly<Record<string, Preset>>;

export type PresetName = keyof typeof TABLE;

export const PRESETS: Readonly<Record<PresetName, Preset>> = TABLE;

export const PRESET_NAMES = Object.keys(TABLE) as readonly PresetName[];

/** Returns the scopes of a token: those of the preset and those that are given beside it, in the order of the manual. */
export function scopesOfToken({
  preset,
  scopes = [],
}: {
  readonly preset?: PresetName | undefined;
  readonly scopes?: readonly Scope[] | undefined;
}): readonly Scope[] {
  const given = preset === undefined ? scopes : [...PRESETS[preset].scopes, ...scopes];
  return SCOPES.filter((scope) => given.includes(scope));
}
