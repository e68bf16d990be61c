/** Prints the results of commands: tables and fields for people, one JSON document for programs. */
import { styleText } from "node:util";
import { toTimestamp } from "../calendar.ts";
import { renderCount } from "../render_count.ts";
import { escapeControls, escapeJson } from "../text/mod.ts";
import type { Surroundings } from "./surroundings.ts";

/** Writes a number with its noun: `1 key`, `2,000 keys`. */
export function counted(number: number, one: string): string {
  return `${renderCount(number)} ${one}${number === 1 ? "" : "s"}`;
}

/** Prints a line for people. Line breaks and other control characters in it become escapes: strangers may have written them. */
export function printLine({ out }: Surroundings, text: string): void {
  out(`${escapeControls(text)}\n`);
}

/** Prints a line for people to standard error, so that it is not a part of the command's result. */
export function printNote({ err }: Surroundings, text: string): void {
  err(`${escapeControls(text)}\n`);
}

/** Prints why a command failed, to standard error. */
export function printFailure({ err, isTerminal, hasColours }: Surroundings, why: string): void {
  err(`${paint("claviger:", "red", isTerminal && hasColours)} ${escapeControls(why)}\n`);
}

/** Returns the word in a colour if `isShown`, otherwise unchanged. Only a terminal shows colours. */
export function paint(word: string, colour: "green" | "yellow" | "red", isShown: boolean): string {
  return isShown ? styleText(colour, word, { validateStream: false }) : word;
}

/** Prints a value as JSON for a program. Control characters are escaped, so that a terminal can show it without harm. */
export function printJson(surroundings: Surroundings, value: unknown): void {
  surroundings.out(`${escapeJson(JSON.stringify(value, null, 2))}\n`);
}

/** Prints one line for each field: its name and its value. */
export function printFields(surroundings: Surroundings, fields: Readonly<Record<string, unknown>>): void {
  const width = Math.max(...Object.keys(fields).map((name) => name.length));
  const lines = Object.entries(fields).map(([name, value]) => `${name.padEnd(width)}  ${toText(value)}\n`);
  surroundings.out(lines.join(""));
}

/**
 * Prints a table with a heading for each column; columns of numbers are aligned to the right. If the terminal is
 * narrower than the table, the heading and each row continue in further lines; a longer text is broken between words.
 */
export function printTable<Row extends Readonly<Record<string, unknown>>>(
  surroundings: Surroundings,
  rows: readonly Row[],
): void {
  const [first] = rows;
  if (first === undefined) {
    surroundings.out("none\n");
    return;
  }
  const columns = Object.keys(first).map((name) => {
    const cells = rows.map((row) => toText(row[name]));
    const isNumeric = rows.every((row) => typeof row[name] === "number");
    const width = cells.reduce((widest, cell) => Math.max(widest, cell.length), name.length);
    const pad = (text: string) => (isNumeric ? text.padStart(width) : text.padEnd(width));
    return { width, cells: [pad(name.toUpperCase().replaceAll("_", " ")), ...cells.map(pad)] };
  });
  const lines = foldColumns(columns, surroundings.columns);
  let table = "";
  for (let row = 0; row <= rows.length; row++) {
    for (const [index, line] of lines.entries()) {
      const text = line.map(({ cells }) => cells[row]).join(GAP);
      const indent = index === 0 ? "" : GAP;
      for (const part of breakText(text.trimEnd(), surroundings.columns, indent)) table += `${part}\n`;
    }
  }
  surroundings.out(table);
}

const GAP = "  ";

/** Breaks a text between words into lines of at most `most` characters, each with the indent. */
function breakText(text: string, most: number = Number.POSITIVE_INFINITY, indent = ""): string[] {
  const lines: string[] = [];
  let left = indent + text;
  while (left.length > most) {
    const at = left.lastIndexOf(" ", most);
    // A word that is longer than the line stays whole, so that it can be copied.
    const end = at > indent.length ? at : left.indexOf(" ", most);
    if (end === -1) break;
    lines.push(left.slice(0, end).trimEnd());
    left = `${GAP}${left.slice(end).trimStart()}`;
  }
  return [...lines, left];
}

interface Column {
  readonly width: number;
  readonly cells: readonly string[];
}

/** Distributes the columns over lines of at most `most` characters. A column that is wider gets its own line. */
function foldColumns(columns: readonly Column[], most = Number.POSITIVE_INFINITY): Column[][] {
  const lines: Column[][] = [];
  let left = 0;
  for (const column of columns) {
    left -= GAP.length + column.width;
    if (left < 0) {
      lines.push([]);
      left = most - column.width - (lines.length === 1 ? 0 : GAP.length);
    }
    lines.at(-1)?.push(column);
  }
  return lines;
}

/** Writes a value as one line, with control characters escaped, because strangers wrote some of the values. */
function toText(value: unknown): string {
  if (value === null || value === undefined || value === "") return "-";
  if (value instanceof Date) return toTimestamp(value);
  return escapeControls(typeof value === "object" ? JSON.stringify(value) : String(value));
}
