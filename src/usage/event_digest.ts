/**
 * The digest of an event: 64 hexadecimal digits, some for each field. Digests show whether two events mean the same,
 * and which field differs, without reading the events. The table of events has no index by identifier, because it
 * would make every new event slower.
 *
 * The digest is made from the event as it is stored: absent fields have their defaults, and keys in texts are replaced.
 * The order of names in `metadata` does not change the digest.
 */
import { hash } from "node:crypto";
import { type Claim, EVENT_TYPES, INFERENCE_TYPES, type UsageEvent } from "./event.ts";

/** The number of digits for each field. Do not change this table: digests are stored. */
const DIGITS = {
  event_type: 1,
  inference_type: 1,
  success: 1,
  duration_ms: 16,
  model_name: 16,
  error_message: 16,
  metadata: 13,
} as const;

/** Returns the digest of an event. */
export function digestEvent(event: Omit<UsageEvent, "claim" | "occurredAtMs">): string {
  const { type, inferenceType, success, durationMs, modelName, errorMessage, metadata } = event;
  return [
    EVENT_TYPES.indexOf(type),
    inferenceType === null ? 0 : INFERENCE_TYPES.indexOf(inferenceType) + 1,
    success ? 1 : 0,
    digestNumber(durationMs),
    digestText(modelName, DIGITS.model_name),
    digestText(errorMessage, DIGITS.error_message),
    digestText(metadata === null ? null : renderSorted(JSON.parse(metadata)), DIGITS.metadata),
  ].join("");
}

/** Returns the first field in which two digests differ; undefined if the digests are equal. */
export function findDifference(one: string, other: string): string | undefined {
  let at = 0;
  for (const [field, digits] of Object.entries(DIGITS)) {
    if (one.slice(at, at + digits) !== other.slice(at, at + digits)) return field;
    at += digits;
  }
  return undefined;
}

/** What claims are compared by. */
export type ClaimedEvent = Pick<Claim, "digest" | "occurredAtMs">;

/**
 * Returns the first field in which the events of two claims differ; undefined if the events are equal. An event that was
 * sent alone has no time, so it is equal at any time.
 */
export function findClaimDifference(one: ClaimedEvent, other: ClaimedEvent): string | undefined {
  const isOtherTime =
    one.occurredAtMs !== null && other.occurredAtMs !== null && one.occurredAtMs !== other.occurredAtMs;
  return findDifference(one.digest, other.digest) ?? (isOtherTime ? "occurred_at" : undefined);
}

/** Returns all bits of a number, so that equal digits mean equal numbers. */
function digestNumber(value: number | null): string {
  // A number of an event never has these bits.
  if (value === null) return "f".repeat(DIGITS.duration_ms);
  const bytes = Buffer.allocUnsafe(8);
  // The sum changes -0 to 0.
  bytes.writeDoubleBE(value + 0);
  return bytes.toString("hex");
}

function digestText(text: string | null, digits: number): string {
  return text === null ? "0".repeat(digits) : hash("sha256", text, "hex").slice(0, digits);
}

/** Renders parsed JSON with the names of every object sorted. */
function renderSorted(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(renderSorted).join()}]`;
  const fields = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${renderSorted(field)}`).join()}}`;
}
