import { type Reason, type Refusal, refuse } from "../../base/refusal.ts";
import type { Database } from "../../database/mod.ts";
import {
  allowsKey,
  ERASING,
  type Reading,
  refuseRestricted,
  refuseUnknownKey,
  UNRESTRICTED,
} from "../mod.ts";
import { findKey, type KeySummary } from "./list_keys.ts";

/**
 * Refuses a change that found no row of a key to change, and names the reason. The key is read after the
 * attempt: only the statement of the change decides, and this function only explains the outcome.
 *
 * `reasonOf` returns what prevents the change of an existing key; undefined if nothing prevents it.
 */
export async function refuseKeyChange(
  database: Database,
  uuid: string,
  {
    what,
    now,
    restriction = UNRESTRICTED,
    reasonOf,
  }: Reading & {
    readonly what: string;
    readonly reasonOf: (key: KeySummary) => Reason | undefined;
  },
): Promise<Refusal> {
  const key = await findKey(database, { uuid }, { now });
  if (key === undefined) return refuseUnknownKey(what, uuid);
  // Checked before the reason is found, so that a token gets no facts about keys that it may not change.
  if (!allowsKey(restriction, key)) return refuseRestricted(what);
  const { why, remedy } = reasonOf(key) ?? {
    why: `somebody changed it at the same moment, or ${ERASING}; try again`,
  };
  return refuse("CONFLICT", `Cannot ${what}: ${why}`, { remedy });
}
