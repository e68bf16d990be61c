import type { Database } from "../database/mod.ts";
import { noSuchKey } from "../licensing/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";
import { findKey, type KeySummary } from "./list_keys.ts";

/**
 * Refuses a change for which no row of a key was found, naming the one reason that holds. Reads the key
 * after the attempt: the statement of the change alone decides, and this only explains it.
 *
 * `reasonOf` tells what is in the way in a key that exists, undefined where nothing is.
 */
export async function refuseKeyChange(
  database: Database,
  uuid: string,
  {
    what,
    now,
    reasonOf,
  }: {
    readonly what: string;
    readonly now: Date;
    readonly reasonOf: (key: KeySummary) => string | undefined;
  },
): Promise<Refusal> {
  const cannot = (why: string) => refuse("KEY_NOT_FOUND", `Cannot ${what}: ${why}`);
  const key = await findKey(database, { uuid }, { now });
  if (key === undefined) return cannot(noSuchKey(uuid));
  return cannot(reasonOf(key) ?? "somebody changed it at the same moment; try again");
}
