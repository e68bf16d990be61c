/**
 * Identifiers as people and clients see them: a short word for the kind and a UUIDv7 (RFC 9562) as 32
 * hexadecimal digits, `usr_019a…`. In the database the same identifier is a plain `uuid`.
 *
 * One is made for every request, so what identifiers of one millisecond have in common is made once for
 * them all: the time, and 62 random bits that tell this process's from those of others. The 12 bits between
 * count, as RFC 9562 describes in 6.2 (method 1). When they are used up, or the wall clock steps back, the
 * next ones go on ahead of the clock. An identifier is a name and no secret: whoever has seen one can guess
 * the next.
 */
import { randomBytes } from "node:crypto";

export type IdKind = "usr" | "lic" | "key" | "evt" | "req" | "mdl";

/** The version in front of the 12 bits that count. */
const FIRST = 0x7000;
const LAST = 0x7fff;

let atMs = 0;
let next = FIRST;
/** 12 hexadecimal digits. */
let time = "";
/** `req_` and the time: what most identifiers begin with. */
let requestTime = "";
/** 16 hexadecimal digits. */
let random = "";

/** Moves on to the next identifier, and to the next millisecond when it is time. */
function advance(): string {
  const nowMs = Date.now();
  if (nowMs > atMs || next === LAST) {
    atMs = nowMs > atMs ? nowMs : atMs + 1;
    next = FIRST;
    time = atMs.toString(16).padStart(12, "0");
    const bytes = randomBytes(8);
    // The variant that all UUIDs of the RFC have.
    bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x80;
    random = bytes.toString("hex");
    requestTime = `req_${time}`;
  } else next++;
  counts[next - FIRST] ??= next.toString(16);
  return counts[next - FIRST] as string;
}

/** What was counted before, as text: few milliseconds have many. */
const counts: string[] = [];

/** Makes a new UUIDv7 in its canonical form; identifiers made later sort later. */
export function newUuid(): string {
  const count = advance();
  return `${time.slice(0, 8)}-${time.slice(8)}-${count}-${random.slice(0, 4)}-${random.slice(4)}`;
}

/** Makes a new identifier of that kind, for what is never stored. */
export function newId(kind: IdKind): string {
  const count = advance();
  return kind === "req" ? requestTime + count + random : `${kind}_${time}${count}${random}`;
}

/** Renders a UUID from the database as the identifier of that kind. */
export function toId(kind: IdKind, uuid: string): string {
  return `${kind}_${uuid.replaceAll("-", "")}`;
}

/** Reads an identifier of that kind back into a UUID; undefined when it is anything else. */
export function parseId(kind: IdKind, text: string): string | undefined {
  const match = ID.exec(text);
  if (match === null || match[1] !== kind) return undefined;
  return match.slice(2).join("-");
}

const ID = /^([a-z]{3})_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/;
