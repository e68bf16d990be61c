/** The reasons for refusing a change of a key, in the same words for all commands. */
import { toId } from "../ids.ts";

/** Returns the sentence that no key has this id. */
export function noSuchKey(uuid: string): string {
  return `there is no key ${toId("key", uuid)}; see \`claviger keys list\``;
}

/** Why a revoked key cannot be changed, and why its license cannot be changed through that key. */
export const REVOKED = "it is revoked, and that is for good; issue a new key instead";
