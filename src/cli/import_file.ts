/**
 * Reads the file of `claviger keys import`: at most 2,000,000 lines of at most 64 KiB each. The whole file is read and
 * checked before anything is written.
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
 * Reads the keys of a file, or of standard input for `-`. A refusal names the first wrong line by its number, never a
 * key.
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
      if (number > MAX_LINES) return cannot(`${path} has more than ${MAX_LINES} lines; split the file`);
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
