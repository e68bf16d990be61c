/**
 * What an event means, as 64 hexadecimal digits with some of them for each field: so two events can be compared, and
 * the field that differs can be named, without a look at the events themselves. These have no index by their
 * identifier, because it would cost every event.
 *
 * It is made of the event as it is stored, where what was absent has its default and keys in texts are blanked. The
 * order of the names in `metadata` is no part of the meaning.
 */
import { hash } from "node:crypto";
import { EVENT_TYPES, INFERENCE_TYPES, type UsageEvent } from "./event.ts";

/** Digests are stored: this table stays as it is. */
const DIGITS = {
  event_type: 1,
  inference_type: 1,
  success: 1,
  duration_ms: 16,
  model_name: 16,
  error_message: 16,
  metadata: 13,
} as const;

/** Gives the digest of an event. */
export function digestEvent(event: Omit<UsageEvent, "claim">): string {
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

/** Gives the first field in which two events differ, by their digests; undefined where they mean the same. */
export function findDifference(one: string, other: string): string | undefined {
  let at = 0;
  for (const [field, digits] of Object.entries(DIGITS)) {
    if (one.slice(at, at + digits) !== other.slice(at, at + digits)) return field;
    at += digits;
  }
  return undefined;
}

/** All the bits of a number, so that equal digits mean equal numbers. */
function digestNumber(value: number | null): string {
  // No number of an event has these bits.
  if (value === null) return "f".repeat(DIGITS.duration_ms);
  const bytes = Buffer.allocUnsafe(8);
  // The sum makes -0 into 0.
  bytes.writeDoubleBE(value + 0);
  return bytes.toString("hex");
}

function digestText(text: string | null, digits: number): string {
  return text === null ? "0".repeat(digits) : hash("sha256", text, "hex").slice(0, digits);
}

/** Renders parsed JSON with the names of every object in one order. */
function renderSorted(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(renderSorted).join()}]`;
  const fields = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${renderSorted(field)}`).join()}}`;
}
