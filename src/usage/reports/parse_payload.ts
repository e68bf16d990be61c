/**
 * Parses the payload of a report as JSON, in parts: the largest one at once takes half a second, in which a service would answer
 * nobody. Its list of events is cut between events; each piece, and the payload without them, is parsed by `JSON.parse`. So
 * nothing is accepted that is no JSON: every character goes into one of the pieces.
 *
 * The customer has the key that signs a report, and can write any. So an event, and the payload without events, are parsed only
 * within bounds of their size and their levels.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { JsonObject } from "../../wire/mod.ts";
import { EVENTS_A_TURN } from "./read_events.ts";
import { fail, isObject } from "./report_fields.ts";

const BYTES_A_TURN = 1024 * 1024;
/** An event as the clients write it is smaller. */
const MOST_OF_EVENT = 64 * 1024;
/** The payload without its events: 20,000 rows with long names. */
const MOST_OF_REST = 8 * 1024 * 1024;
/** An object, its list of rows, and a row. */
const LEVELS_OF_REST = 3;
const EVENTS = '"events"';
const [QUOTE, BACKSLASH, COMMA] = ['"', "\\", ","];

/** Returns the object of a payload; undefined for every other text, also one that is no UTF-8. Throws `Wrong` for too large parts. */
export async function parsePayload(bytes: Buffer): Promise<JsonObject | undefined> {
  try {
    const text = await decodeText(bytes);
    const cut = await cutEvents(text);
    const rest = cut?.rest ?? text;
    await demandShallow(rest);
    const value: unknown = JSON.parse(rest);
    if (!isObject(value)) return undefined;
    return cut === undefined ? value : { ...value, events: await parsePieces(cut.pieces) };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return undefined;
    throw error;
  }
}

/** Throws a `TypeError` for bytes that are no UTF-8. */
async function decodeText(bytes: Buffer): Promise<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += BYTES_A_TURN) {
    if (at > 0) await nextTurn();
    parts.push(decoder.decode(bytes.subarray(at, at + BYTES_A_TURN), { stream: true }));
  }
  return parts.join("") + decoder.decode();
}

interface Cut {
  /** The payload with an empty list of events. */
  readonly rest: string;
  /** The events as they stand in their list, some in each piece. */
  readonly pieces: readonly string[];
}

/** Cuts the events out; undefined if no list of events is found as the clients write it: then the text is parsed at once. */
async function cutEvents(text: string): Promise<Cut | undefined> {
  const begin = await findEvents(text);
  if (begin === undefined) return undefined;
  const pieces: string[] = [];
  let [from, event, depth, events] = [begin, begin, 0, 0];
  for (let at = begin; at < text.length; at++) {
    if (at - event > MOST_OF_EVENT) fail(`events[${events}] has more than ${MOST_OF_EVENT} characters`);
    const character = text[at];
    if (character === QUOTE) at = endOfString(text, at);
    else if (character === "{" || character === "[") depth++;
    else if ((character === "}" || character === "]") && depth-- === 0) {
      pieces.push(text.slice(from, at));
      // The same name twice: the last one counts in JSON.
      if (text.indexOf(EVENTS, at) !== -1) return undefined;
      return { rest: text.slice(0, begin) + text.slice(at), pieces };
    } else if (character === COMMA && depth === 0) {
      event = at + 1;
      if (++events % EVENTS_A_TURN > 0 && at - from < BYTES_A_TURN) continue;
      pieces.push(text.slice(from, at));
      from = at + 1;
      await nextTurn();
    }
  }
  return undefined;
}

/** Refuses a payload without its events that is too large, or has more levels than a report. */
async function demandShallow(rest: string): Promise<void> {
  if (rest.length > MOST_OF_REST)
    fail(`it has more than ${MOST_OF_REST} characters beside its list of events`);
  let [depth, turnAt] = [0, BYTES_A_TURN];
  for (let at = 0; at < rest.length; at++) {
    if (at >= turnAt) {
      turnAt = at + BYTES_A_TURN;
      await nextTurn();
    }
    const character = rest[at];
    if (character === QUOTE) at = endOfString(rest, at);
    else if (character === "}" || character === "]") depth--;
    else if ((character === "{" || character === "[") && ++depth > LEVELS_OF_REST)
      fail("it has more levels than a report");
  }
}

/** Returns where the list of events begins, behind its bracket. */
async function findEvents(text: string): Promise<number | undefined> {
  let [depth, turnAt] = [0, BYTES_A_TURN];
  for (let at = 0; at < text.length; at++) {
    if (at >= turnAt) {
      turnAt = at + BYTES_A_TURN;
      await nextTurn();
    }
    const character = text[at];
    if (character === "{" || character === "[") depth++;
    else if (character === "}" || character === "]") depth--;
    else if (character === QUOTE) {
      const end = endOfString(text, at);
      const list =
        depth === 1 && text.slice(at, end + 1) === EVENTS && /^\s*:\s*\[/.exec(text.slice(end + 1, end + 16));
      if (list) return end + 1 + list[0].length;
      at = end;
    }
  }
  return undefined;
}

/** Returns where a string ends that begins at a quotation mark. */
function endOfString(text: string, begin: number): number {
  for (let at = begin + 1; ; at++) {
    const end = text.indexOf(QUOTE, at);
    if (end === -1) return text.length;
    let slashes = 0;
    while (text[end - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end;
    at = end;
  }
}

async function parsePieces(pieces: readonly string[]): Promise<unknown[]> {
  const events: unknown[] = [];
  for (const piece of pieces) {
    const parsed: unknown[] = JSON.parse(`[${piece}]`);
    // Only an empty list has an empty piece.
    if (parsed.length === 0 && pieces.length > 1) throw new SyntaxError("A comma has no event behind it");
    for (const event of parsed) events.push(event);
    await nextTurn();
  }
  return events;
}
