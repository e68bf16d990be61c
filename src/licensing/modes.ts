/** The modes of a key. Both count against the quota of the license. */
export const MODES = ["live", "test"] as const;
export type KeyMode = (typeof MODES)[number];
