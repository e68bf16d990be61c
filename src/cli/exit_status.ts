/** The exit statuses of commands, for scripts and service managers. The page `commands` of the manual lists them too. */
export const SUCCESS = 0;
export const REFUSED = 1;
export const WRONG_USAGE = 2;
/**
 * Of `backup`, `backup --verify` and `restore`: the work is done, but the backup lacks the model files that are named. Of
 * `bundle make` and `machines release-all`: done for other machines, but not for those that are named or counted; of `bundle make`
 * also whenever a license was signed and not every bundle was made. Of
 * `usage import`: some of the reports are imported, or all, but no license was written.
 */
export const INCOMPLETE = 3;
/** Of `audit --follow`: the cursor is of a database that was restored or replaced, so the reader must begin again. */
export const CURSOR_EXPIRED = 4;
/**
 * Of `serve`: only a person can repair the fault, so a restart does not help. Of every command: the data is lost or
 * damaged, or may be, and only a restore helps; or the unit has settings that say which installation the service has, and
 * that commands do not read. Source: EX_CONFIG of sysexits.h, which systemd calls CONFIG.
 */
export const NEEDS_PERSON = 78;
