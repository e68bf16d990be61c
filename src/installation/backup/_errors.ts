/** Thrown for a file that is not a backup, or not a complete one. The message is the reason as a phrase. */
export class BadBackup extends Error {}

/** Thrown for a cause that the operator can remove. The message is the reason as a phrase. */
export class BackupFailure extends Error {}

/** Returns the error for a file that is not as it was written; `how` says what is wrong with it. */
export function damaged(how: string): BadBackup {
  return new BadBackup(`${how}: it is damaged; use another copy or an earlier backup`);
}

/** Thrown for a database that may be a new one in place of lost data. The message is a sentence for the operator. */
export class NotAdmitted extends Error {}
