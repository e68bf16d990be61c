import { quoteShellWord } from "../../base/quote_shell_word.ts";
import { counted } from "../../base/render_count.ts";
import { hasCode } from "../../base/system_error.ts";
import { findEarlierKeys, selectBackupSource } from "../backup/mod.ts";
import type { DatabaseContext } from "./examine_database.ts";
import { type Check, fail, ok, warn } from "./finding.ts";

/**
 * Returns the check that an installation without keys is a new one, and not one that lost its data. It looks for keys in
 * the backups of a folder; undefined if no such folder is known. Keys are never deleted, not even when they are revoked.
 */
export function keysCheck(folder: string | undefined): Check<Pick<DatabaseContext, "database">> {
  return {
    name: "keys",
    async examine({ database }) {
      const [source] = await database.read(selectBackupSource);
      const { installation = null, keys = 0 } = source ?? {};
      if (keys > 0) return ok(counted(keys, "key"));
      const none = "none in this database";
      if (folder === undefined) return ok(`${none}; compare its backups with --backups FOLDER`);
      try {
        const { earlier, unknown } = await findEarlierKeys(folder, installation);
        if (unknown !== undefined) {
          return warn(
            `${none}, and the backup ${unknown.name} in ${folder} cannot be read: ${unknown.why}`,
            "if the data was lost, restore another copy of the backup; otherwise move the file away",
          );
        }
        if (earlier === undefined) return ok(`${none}, and none in the backups in ${folder}`);
        const { head, name, count } = earlier;
        const had = count === undefined ? "may have keys" : `has ${counted(count, "key")}`;
        return fail(
          `${none}, and the backup ${name} in ${folder} of ${head.made_at.slice(0, 10)} ${had}`,
          `if the data was lost, \`claviger restore ${quoteShellWord(folder)}\` lists the backups; otherwise see \`claviger guide backups\``,
        );
      } catch (error) {
        if (hasCode(error, "ENOENT")) return ok(`${none}; there is no folder ${folder}`);
        throw error;
      }
    },
  };
}
