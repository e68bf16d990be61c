/**
 * Makes text from outside safe for a terminal, a log and a JSON document.
 *
 * Names, reasons, answers of other servers and files of other users may contain sequences that move the cursor, end
 * the line, or turn the writing direction. Code that prints such a text escapes it with these functions.
 */

/** DEL, the C1 controls, the bidirectional marks, and the line and paragraph separators. JSON does not escape them. */
const BEYOND_JSON = "\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069";
const CONTROLS = new RegExp(`[\\u0000-\\u001f${BEYOND_JSON}]`);
const EVERY_CONTROL = new RegExp(CONTROLS, "g");
const EVERY_BEYOND_JSON = new RegExp(`[${BEYOND_JSON}]`, "g");

/** Turns a text into one printable line: controls become escapes as in JSON, such as `\n` and `\u001b`. */
export function escapeControls(text: string): string {
  return CONTROLS.test(text) ? text.replaceAll(EVERY_CONTROL, toEscape) : text;
}

/** Moves the cursor to the start of its line and clears the line. */
export const LINE_ANEW = "\r\u001b[K";

/** Makes JSON text printable. Its value does not change, and line breaks between members stay. */
export function escapeJson(json: string): string {
  return json.replaceAll(EVERY_BEYOND_JSON, toEscape);
}

function toEscape(character: string): string {
  const json = JSON.stringify(character).slice(1, -1);
  return json !== character ? json : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
