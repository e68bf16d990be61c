/** Thrown for a file that is no backup, or not a whole one: the reason as a phrase. */
export class BadBackup extends Error {}

export const DAMAGED = "it is damaged; use another copy or an earlier backup";
