/**
 * Identifiers for people and clients: a short word for the kind and a UUIDv7 (RFC 9562) as 32 hexadecimal digits,
 * `usr_019a…`. In the database the same identifier is a plain `uuid`.
 *
 * Every request gets an identifier, so the common part of one millisecond is made once: the time, and 62 random bits
 * that distinguish processes. The last 12 bits count, as in RFC 9562, 6.2 (method 2). When they are used up, or the
 * wall clock steps back, the next identifiers run ahead of the clock. An identifier is a name and not a secret: the next
 * one can be guessed.
 */
import { randomBytes } from "node:crypto";
import type { Rule } from "./rule.ts";

export type IdKind = "usr" | "lic" | "key" | "evt" | "req" | "mdl" | "ses" | "mch" | "aud" | "ntc";

/** The number of values of the last 12 bits. */
const COUNTS = 0x1000;

let atMs = 0;
let next = 0;
/** The beginning that all identifiers of this millisecond share: of a UUID, and of the identifier of a request. */
let uuidHead = "";
let requestHead = "";
/** Numbers as three hexadecimal digits, rendered at first use: most milliseconds need few. */
const digits: string[] = [];

/** Advances to the next identifier, and to the next millisecond when necessary. Returns the last digits. */
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
  // The variant bits of the RFC.
  bytes[2] = ((bytes[2] ?? 0) & 0x3f) | 0x80;
  const random = bytes.toString("hex");
  const [a, b, c] = [random.slice(0, 3), random.slice(4, 8), random.slice(8, 17)];
  uuidHead = `${time.slice(0, 8)}-${time.slice(8)}-7${a}-${b}-${c}`;
  requestHead = `req_${uuidHead.replaceAll("-", "")}`;
}

/** Generates a UUIDv7 in its canonical form. Later identifiers sort after earlier ones. */
export function newUuid(): string {
  const count = advance();
  return uuidHead + count;
}

/** Generates the identifier of a request, which is never stored. */
export function newRequestId(): string {
  const count = advance();
  return requestHead + count;
}

/**
 * Renders a UUID of the database as an identifier of that kind.
 *
 * @example
 * ```ts
 * toId("key", "0197b0aa-0000-7000-8000-000000000001"); // "key_0197b0aa000070008000000000000001"
 * parseId("key", "key_0197b0aa000070008000000000000001"); // "0197b0aa-0000-7000-8000-000000000001"
 * ```
 */
export function toId(kind: IdKind, uuid: string): string {
  return `${kind}_${uuid.replaceAll("-", "")}`;
}

/** Parses an identifier of that kind into its UUID; undefined for any other text. */
export function parseId(kind: IdKind, text: string): string | undefined {
  const match = ID.exec(text);
  if (match === null || match[1] !== kind) return undefined;
  return match.slice(2).join("-");
}

/** Describes an identifier of that kind in a refusal. */
export function idForm(kind: IdKind): string {
  return `${kind}_ and 32 hexadecimal digits`;
}

/** Returns the rule for an identifier of that kind, which means its UUID. */
export function idRule(kind: IdKind): Rule<string> {
  return {
    expects: idForm(kind),
    keywords: { pattern: `^${kind}_[0-9a-f]{32}$` },
    parse: (text) => parseId(kind, text),
  };
}

const ID = /^([a-z]{3})_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/;
