/** Why nothing can be done with a key that an operator names by its id: the same words wherever they meet it. */
import { toId } from "../ids.ts";

/** Says that no key has this id. */
export function noSuchKey(uuid: string): string {
  return `there is no key ${toId("key", uuid)}; see \`claviger keys list\``;
}

/** What is in the way of every change of a revoked key, and of its license by that key. */
export const REVOKED = "it is revoked, and that is for good; issue a new key instead";
