/** The states of a key that are stored. */
export const KEY_STATES = ["active", "suspended", "revoked"] as const;
export type KeyState = (typeof KEY_STATES)[number];

/** The states of a key in lists: `expired` for an active key after its expiry. */
export const LISTED_STATES = [...KEY_STATES, "expired"] as const;
export type ListedState = (typeof LISTED_STATES)[number];
