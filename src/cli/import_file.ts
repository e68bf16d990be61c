/**
 * Reads the file of `claviger keys import`: at most 2,000,000 lines of at most 64 KiB each, with a JSON object for each
 * key, or CSV whose first line names the fields. The whole file is read and checked before anything is written.
 */
import { resolve } from "node:path";
import { openNamedFile, readChunks } from "../base/read_regular_file.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { redactKeys } from "../base/secrets/mod.ts";
import { parseCsvLine } from "../base/text/mod.ts";
import {
  IMPORT_FIELDS,
  type ImportedKey,
  type LineOfImport,
  parseImportFields,
  parseImportLine,
} from "../licensing/keys/mod.ts";
import type { Brand } from "../licensing/mod.ts";
import { renderFileFailure } from "./failures.ts";
import type { Invocation } from "./invocation.ts";

const MAX_LINES = 2_000_000;
const MAX_LINE_CHARACTERS = 64 * 1024;
/** Further wrong lines are only counted. */
const MAX_NAMED = 20;

/**
 * Reads the keys of a file, or of standard input for `-`. A refusal names the first 20 wrong lines by their
 * numbers, never a key.
 */
export async function readImportFile(
  { workingFolder, input }: Pick<Invocation, "workingFolder" | "input">,
  file: string,
  brand: Brand,
): Promise<LineOfImport[] | Refusal> {
  const isInput = file === "-";
  const path = isInput ? "standard input" : resolve(workingFolder, file);
  const keys: LineOfImport[] = [];
  const wrong: string[] = [];
  const cannot = (why: string) => refuse("INVALID_REQUEST", `Cannot import keys: ${why}`);
  let parse: LineParser | undefined;
  let [number, wrongLines] = [0, 0];
  try {
    for await (const line of readLines(isInput ? input : readFile(path))) {
      number++;
      if (number > MAX_LINES) return cannot(`${path} has more than ${MAX_LINES} lines; split the file`);
      if (line.length > MAX_LINE_CHARACTERS) return cannot(`line ${number} is longer than 64 KiB`);
      if (line.trim() === "") continue;
      const isUtf8 = !line.includes("\ufffd");
      if (parse === undefined && !line.trimStart().startsWith("{")) {
        const columns = isUtf8 ? readHeader(line) : NOT_UTF8;
        if (isRefusal(columns)) return cannot(`line ${number}: ${columns.sentence}`);
        parse = createCsvParser(columns, brand);
        continue;
      }
      parse ??= (text) => parseImportLine(text, brand);
      const key = isUtf8 ? parse(line) : NOT_UTF8;
      if (key === undefined) continue;
      if (!isRefusal(key)) keys.push({ key, line: number });
      else if (++wrongLines <= MAX_NAMED) wrong.push(`line ${number}: ${key.sentence}`);
    }
  } catch (error) {
    return cannot(`${path}: ${renderFileFailure(error)}`);
  }
  if (wrongLines > MAX_NAMED) wrong.push(`and ${wrongLines - MAX_NAMED} more wrong lines`);
  if (wrongLines > 0) return cannot(wrong.join("; "));
  return keys.length === 0 ? cannot(`${path} holds no keys`) : keys;
}

/** Reads a line; undefined for one without a key. */
type LineParser = (line: string) => ImportedKey | Refusal | undefined;

const wrongLine = (why: string) => refuse("INVALID_REQUEST", why);
const NOT_UTF8 = wrongLine("it is not UTF-8");
const COLUMNS = `the columns of CSV are ${IMPORT_FIELDS.join(", ")}`;
const NO_HEADER = wrongLine(
  `it is neither a JSON object nor the first line of CSV, which names the fields, such as api_key,email,tier: ${COLUMNS}`,
);

/** Reads the first line of CSV, which names the columns. An empty name is that of a column without values. */
function readHeader(line: string): string[] | Refusal {
  const isColumn = (name: string) => IMPORT_FIELDS.includes(name);
  const other = [";", "\t", "|"].find((each) => line.split(each).some((name) => isColumn(unquote(name))));
  const names = parseCsvLine(line.trim());
  // Names in capitals or with blanks are no columns, but they tell that the line names columns.
  if (names === undefined || !names.some((name) => isColumn(name.trim().toLowerCase()))) {
    if (other === undefined) return NO_HEADER;
    return wrongLine(
      `it is separated by ${other === "\t" ? "tabs" : other} and not by commas: save the file with commas`,
    );
  }
  const given = names.filter((name) => name !== "");
  const unknown = given.filter((name) => !isColumn(name));
  // A name can be any text, even a key.
  const shown = unknown.map((name) => (/^[\w .-]{1,30}$/.test(name) ? redactKeys(name) : "[another text]"));
  if (unknown.length > 0)
    return wrongLine(`it has the unknown column ${shown.slice(0, 5).join(", ")}: ${COLUMNS}`);
  const twice = given.find((name, index) => given.indexOf(name) < index);
  return twice === undefined ? names : wrongLine(`it has the column ${twice} twice`);
}

function unquote(cell: string): string {
  return cell.trim().replace(/^"(.*)"$/, "$1");
}

/** Creates the parser of the lines below the one with the names. */
function createCsvParser(names: readonly string[], brand: Brand): LineParser {
  let isOpen = false;
  return (line) => {
    const isUneven = line.split('"').length % 2 === 0;
    if (isUneven) {
      isOpen = !isOpen;
      // The line that ends the cell was refused with the one that begins it.
      return isOpen
        ? wrongLine("a quotation mark is open at its end: no cell can have a line break")
        : undefined;
    }
    const cells = parseCsvLine(line.replace(/\r$/, ""));
    if (cells?.every((cell) => cell === "")) return undefined;
    if (cells?.length !== names.length)
      return wrongLine(`it is not CSV with ${names.length} cells, as the first line`);
    const fields = names.map((name, index) => [name, toValue(name, cells[index] ?? "")]);
    const given = fields.filter(([, value]) => value !== "");
    if (given.some(([name]) => name === "")) return wrongLine("it has a value in a column without a name");
    return parseImportFields(Object.fromEntries(given), brand);
  };
}

/** CSV has texts alone: the values of these columns are numbers, or true and false. */
const NUMBERS = /^(monthly_limit|max_machines|seat_minutes|self_releases|max_offline_days|term_days|used)$/;
const BOOLEANS = /^(starts_on_first_use|shows_machines)$/;

function toValue(name: string, cell: string): string | number | boolean {
  if (NUMBERS.test(name) && /^\d+$/.test(cell)) return Number(cell);
  return BOOLEANS.test(name) && /^(true|false)$/.test(cell) ? cell === "true" : cell;
}

async function* readFile(path: string): AsyncGenerator<Uint8Array> {
  using file = openNamedFile(path);
  yield* readChunks(file.fd);
}

/** Yields the lines of a text. If a line is too long, only a part of it is yielded, which is too long, too. */
async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    // The decoder removes a byte order mark, which some editors write at the start of a file.
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
    // The caller refuses this line because of its length, and reads no further.
    if (rest.length > MAX_LINE_CHARACTERS) yield rest;
  }
  rest += decoder.decode();
  if (rest !== "") yield rest;
}
