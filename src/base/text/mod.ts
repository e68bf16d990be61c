/** Text that others wrote, made safe for where it is shown: a terminal, a log, JSON, a spreadsheet. */

export { parseCsvLine, renderCsv } from "./csv.ts";
export { escapeControls, escapeJson, LINE_ANEW } from "./escape_controls.ts";
