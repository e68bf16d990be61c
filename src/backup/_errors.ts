/** Thrown for a file that is not a backup, or not a complete one. The message is the reason as a phrase. */
export class BadBackup extends Error {}

/** Thrown for a cause that the operator can remove. The message is the reason as a phrase. */
export class BackupFailure extends Error {}

export const DAMAGED = "it is damaged; use another copy or an earlier backup";
