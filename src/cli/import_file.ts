/**
 * The file of `claviger keys import`, read whole and found good before anything is written: at most
 * 2,000,000 lines of at most 64 KiB each.
 */
import { resolve } from "node:path";
import type { Brand } from "../brand.ts";
import { type LineOfImport, parseImportLine } from "../keys/mod.ts";
import { openNamedFile, readChunks } from "../read_regular_file.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { renderFileFailure } from "./failures.ts";
import type { Surroundings } from "./surroundings.ts";

const MAX_LINES = 2_000_000;
const MAX_LINE_CHARACTERS = 64 * 1024;

/**
 * Reads the keys of a file, or of standard input for `-`; refuses with the number of the first line that is wrong,
 * never with a key.
 */
export async function readImportFile(
  { workingFolder, input }: Surroundings,
  file: string,
  brand: Brand,
): Promise<LineOfImport[] | Refusal> {
  const isInput = file === "-";
  const path = isInput ? "standard input" : resolve(workingFolder, file);
  const keys: LineOfImport[] = [];
  const cannot = (why: string) => refuse("INVALID_REQUEST", `Cannot import keys: ${why}`);
  let number = 0;
  try {
    for await (const line of readLines(isInput ? input : readFile(path))) {
      number++;
      if (number > MAX_LINES) return cannot(`${path} has more than ${MAX_LINES} lines; split it`);
      if (line.includes("\ufffd")) return cannot(`line ${number} is not UTF-8`);
      if (line.length > MAX_LINE_CHARACTERS) return cannot(`line ${number} is longer than 64 KiB`);
      if (line.trim() === "") continue;
      const key = parseImportLine(line, brand);
      if (isRefusal(key)) return cannot(`line ${number}: ${key.sentence}`);
      keys.push({ key, line: number });
    }
  } catch (error) {
    return cannot(`${path}: ${renderFileFailure(error)}`);
  }
  return keys.length === 0 ? cannot(`${path} holds no keys`) : keys;
}

async function* readFile(path: string): AsyncGenerator<Uint8Array> {
  const file = openNamedFile(path);
  try {
    yield* readChunks(file.fd);
  } finally {
    file.close();
  }
}

/** The lines of a text; of one that is too long only so much that its length shows. */
async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    // A byte order mark, with which some editors begin a file, is left out.
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
    // The last of what is read: whoever asks for more has not looked at its length.
    if (rest.length > MAX_LINE_CHARACTERS) yield rest;
  }
  rest += decoder.decode();
  if (rest !== "") yield rest;
}
