/**
 * Identifiers as people and clients see them: a short word for the kind and a UUIDv7 (RFC 9562) as 32
 * hexadecimal digits, `usr_019a…`. In the database the same identifier is a plain `uuid`.
 *
 * One is made for every request, so what identifiers of one millisecond have in common is made once for
 * them all: the time, and 62 random bits that tell this process's from those of others. The last 12 bits
 * count, as RFC 9562 describes in 6.2 (method 2). When they are used up, or the wall clock steps back, the
 * next ones go on ahead of the clock. An identifier is a name and no secret: whoever has seen one can guess
 * the next.
 */
import { randomBytes } from "node:crypto";

export type IdKind = "usr" | "lic" | "key" | "evt" | "req" | "mdl";

/** How many the last 12 bits can count. */
const COUNTS = 0x1000;

let atMs = 0;
let next = 0;
/** What those of this millisecond begin with: as a UUID, and as the identifier of a request. */
let uuidHead = "";
let requestHead = "";
/** Numbers as three hexadecimal digits, made when they are first counted to: few milliseconds have many. */
const digits: string[] = [];

/** Moves on to the next identifier, and to the next millisecond when it is time; returns the last digits. */
function advance(): string {
  const nowMs = Date.now();
  if (nowMs > atMs || next === COUNTS) begin(nowMs > atMs ? nowMs : atMs + 1);
  const count = next++;
  digits[count] ??= count.toString(16).padStart(3, "0");
  return digits[count] as string;
}

function begin(ms: number) {
  atMs = ms;
  next = 0;
  const time = ms.toString(16).padStart(12, "0");
  const bytes = randomBytes(9);
  // The variant that all UUIDs of the RFC have.
  bytes[2] = ((bytes[2] ?? 0) & 0x3f) | 0x80;
  const random = bytes.toString("hex");
  const [a, b, c] = [random.slice(0, 3), random.slice(4, 8), random.slice(8, 17)];
  uuidHead = `${time.slice(0, 8)}-${time.slice(8)}-7${a}-${b}-${c}`;
  requestHead = `req_${uuidHead.replaceAll("-", "")}`;
}

/** Makes a new UUIDv7 in its canonical form; identifiers made later sort later. */
export function newUuid(): string {
  const count = advance();
  return uuidHead + count;
}

/** Makes a new identifier of a request, which is never stored. */
export function newRequestId(): string {
  const count = advance();
  return requestHead + count;
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
