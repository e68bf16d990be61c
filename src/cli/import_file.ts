/**
 * The file of `claviger keys import`, read whole and found good before anything is written: at most
 * 2,000,000 lines of at most 64 KiB each.
 */
import type { Brand } from "../brand.ts";
import { type LineOfImport, parseImportLine } from "../keys/mod.ts";
import { openNamedFile, readChunks } from "../read_regular_file.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { renderFileFailure } from "./failures.ts";

const MAX_LINES = 2_000_000;
const MAX_LINE_CHARACTERS = 64 * 1024;

/** Reads the keys of a file; refuses with the number of the first line that is wrong, never with a key. */
export async function readImportFile(path: string, brand: Brand): Promise<LineOfImport[] | Refusal> {
  const keys: LineOfImport[] = [];
  const cannot = (why: string) => refuse("INVALID_REQUEST", `Cannot import keys: ${why}`);
  let number = 0;
  try {
    for await (const line of readLines(path)) {
      number++;
      if (line.includes("\ufffd")) return cannot(`line ${number} is not UTF-8`);
      if (line.length > MAX_LINE_CHARACTERS) return cannot(`line ${number} is longer than 64 KiB`);
      if (line.trim() === "") continue;
      if (keys.length === MAX_LINES) return cannot(`the file has more than ${MAX_LINES} lines; split it`);
      const key = parseImportLine(line, brand);
      if (isRefusal(key)) return cannot(`line ${number}: ${key.sentence}`);
      keys.push({ key, line: number });
    }
  } catch (error) {
    return cannot(`${path}: ${renderFileFailure(error)}`);
  }
  return keys.length === 0 ? cannot(`${path} holds no keys`) : keys;
}

/** The lines of a file; of one that is too long only so much that its length shows. */
async function* readLines(path: string): AsyncGenerator<string> {
  let rest = "";
  const decoder = new TextDecoder();
  const file = openNamedFile(path);
  try {
    for await (const chunk of readChunks(file.fd)) {
      // A byte order mark, with which some editors begin a file, is left out.
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
      // The last of what is read: whoever asks for more has not looked at its length.
      if (rest.length > MAX_LINE_CHARACTERS) yield rest;
    }
  } finally {
    file.close();
  }
  rest += decoder.decode();
  if (rest !== "") yield rest;
}
