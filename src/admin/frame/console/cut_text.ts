/** Cuts long texts by others, so that a page of 50 rows stays small. */
import { escapeControls } from "../../../base/text/mod.ts";

/** The bytes of a name in a list. The page of the thing shows the whole name. */
export const MOST_OF_NAME = 200;
/** The bytes of a reason. */
export const MOST_OF_REASON = 900;

/** Returns the beginning of a text that takes at most this number of bytes in the page. */
export function cutText(text: string, most: number): string {
  if (shownLength(text) <= most) return text;
  let end = 0;
  for (let length = 0; length <= most; end++) length += shownLength(text.charAt(end));
  // Not between the halves of a character.
  return `${text.slice(0, end - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** Returns the bytes of a text in the page: a character that HTML escapes and a control character take several. */
export function shownLength(text: string): number {
  return Buffer.byteLength(escapeControls(text)) + 5 * (text.match(/["&'<>]/g)?.length ?? 0);
}
