/**
 * Verifies a report: a compact JWS on one line, with HMAC-SHA256. The license and the machine choose the key of the signature,
 * so they are looked for in the text before it is verified. Nothing else is believed before that, and no JSON of the payload is
 * parsed.
 *
 * The largest report takes some hundred milliseconds, so the work is done in parts: a service answers its clients meanwhile.
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { decodeBase64url } from "../../base/base64url.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import type { ReportKeys } from "../../licensing/signed_licenses/mod.ts";
import type { JsonObject } from "../../wire/mod.ts";
import { explainOtherFile } from "./other_files.ts";
import { isObject } from "./report_fields.ts";

/** The largest report that is read. */
export const REPORT_LIMIT_BYTES = 32 * 1024 * 1024;
const MOST_HEADER_CHARACTERS = 200;
const SIGNATURE_CHARACTERS = 43;
const TYPE = "usage-report+jwt";
/** The characters that are decoded or hashed before other work has its turn: some milliseconds. Each four are three bytes. */
const CHARACTERS_A_TURN = 4 * 256 * 1024;

/** The two names as JSON has them, with or without spaces. The first place counts. */
const LICENSE_IN_TEXT = /"license_id"\s{0,4}:\s{0,4}"(lic_[0-9a-f]{32})"/;
const MACHINE_IN_TEXT = /"machine"\s{0,4}:\s{0,4}"([0-9a-f]{64})"/;

/** A report whose signature is that of its machine. */
export interface VerifiedReport {
  readonly licenseId: string;
  readonly licenseUuid: string;
  readonly machine: string;
  readonly payload: Buffer;
  /** SHA-256 of the line, 64 hexadecimal digits. */
  readonly digest: string;
}

/** Refuses a report; `why` ends the sentence. */
export function wrong(why: string): Refusal {
  return refuse("INVALID_REQUEST", `Cannot import report: ${why}`);
}

const FORGED = wrong(
  "its signature does not fit: it was changed, or its license was not exported by this installation",
);

/**
 * Verifies the signature of a report. `text` is its line; the end of the line, and a byte order mark before it, may be there.
 */
export async function verifyReport(text: string, keyOf: ReportKeys): Promise<VerifiedReport | Refusal> {
  const line = lineOf(text);
  if (line.length > REPORT_LIMIT_BYTES) return wrong(`it has more than ${REPORT_LIMIT_BYTES} bytes`);
  const [head = "", body = "", signature = "", ...more] = line.split(".", 4);
  const isJws =
    more.length === 0 && head.length <= MOST_HEADER_CHARACTERS && signature.length === SIGNATURE_CHARACTERS;
  const header = isJws ? decodeBase64url(head) : undefined;
  const payload = header?.length ? await decode(body) : undefined;
  if (!header?.length || !payload?.length) return wrong(explainOtherFile(line));
  const fields = parseObject(header);
  if (fields?.alg !== "HS256" || fields.typ !== TYPE || Object.keys(fields).length !== 2)
    return wrong(`its header is not that of a report of use (HS256, ${TYPE})`);
  const named = findNames(payload);
  if (isRefusal(named)) return named;
  const key = Buffer.from(keyOf({ licenseUuid: named.licenseUuid, hash: named.machine }), "base64url");
  const [hmac, digest] = [createHmac("sha256", key), createHash("sha256")];
  for await (const part of partsOf(`${head}.${body}`)) {
    hmac.update(part);
    digest.update(part);
  }
  digest.update(`.${signature}`);
  // Texts are compared and not decoded bytes, so that a signature has one spelling.
  const [expected, given] = [Buffer.from(hmac.digest("base64url")), Buffer.from(signature)];
  if (given.length !== expected.length || !timingSafeEqual(expected, given)) return FORGED;
  return { ...named, payload, digest: digest.digest("hex") };
}

/** Returns the line without its end and the mark before it. No regular expression: it would search the whole text. */
function lineOf(text: string): string {
  const end = text.endsWith("\r\n") ? -2 : text.endsWith("\n") ? -1 : undefined;
  return text.slice(text.startsWith("\ufeff") ? 1 : 0, end);
}

/** Finds the two names, which stand at the beginning of what clients write. */
function findNames(payload: Buffer): Pick<VerifiedReport, "licenseId" | "licenseUuid" | "machine"> | Refusal {
  const beginning = payload.subarray(0, CHARACTERS_A_TURN);
  for (const part of beginning.length < payload.length ? [beginning, payload] : [payload]) {
    // Each byte is a character, so that any bytes can be searched.
    const searched = part.toString("latin1");
    const licenseId = LICENSE_IN_TEXT.exec(searched)?.[1] ?? "";
    const machine = MACHINE_IN_TEXT.exec(searched)?.[1];
    const licenseUuid = parseId("lic", licenseId);
    if (licenseUuid !== undefined && machine !== undefined) return { licenseId, licenseUuid, machine };
  }
  return wrong("it names no license and machine");
}

async function decode(text: string): Promise<Buffer | undefined> {
  const bytes: Buffer[] = [];
  for await (const part of partsOf(text)) {
    const decoded = decodeBase64url(part);
    if (decoded === undefined) return undefined;
    bytes.push(decoded);
  }
  return Buffer.concat(bytes);
}

async function* partsOf(text: string): AsyncGenerator<string> {
  for (let at = 0; at < text.length; at += CHARACTERS_A_TURN) {
    if (at > 0) await nextTurn();
    yield text.slice(at, at + CHARACTERS_A_TURN);
  }
}

/** Parses an object; undefined for every other text, also one that is no UTF-8. */
function parseObject(bytes: Buffer): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(
      new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
    );
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
