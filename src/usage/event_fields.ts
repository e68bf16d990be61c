/**
 * Checks the fields of an event in two ways. The schema is the contract, and gives the sentence of every refusal. The
 * quick check accepts most events, and never accepts an event that the schema refuses.
 *
 * The schema creates about sixty objects for each event, the quick check none for an event that it accepts. A test
 * compares the two.
 */
import * as v from "valibot";
import { INSTANT } from "../base/calendar.ts";
import { booleanField, parsedField, printableAscii, wordField } from "../base/rule.ts";
import { metadataField } from "../database/mod.ts";
import type { JsonObject } from "../wire/mod.ts";
import { isOptionalText, optionalText } from "../wire/mod.ts";
import { EVENT_TYPES, INFERENCE_TYPES } from "./event.ts";

export const NAME_CHARACTERS = 200;
const MESSAGE_CHARACTERS = 2_000;

export const eventFields = v.object({
  event_type: wordField(EVENT_TYPES),
  model_name: optionalText(NAME_CHARACTERS),
  inference_type: v.nullish(wordField(INFERENCE_TYPES)),
  duration_ms: v.nullish(
    v.pipe(v.number("must be a number"), v.finite("must be finite"), v.minValue(0, "must not be negative")),
  ),
  success: v.nullish(booleanField()),
  error_message: optionalText(MESSAGE_CHARACTERS),
  metadata: v.nullish(metadataField()),
});

/** The rule for an `Idempotency-Key`. */
export const CLAIM = printableAscii(1, 255);

export const batchEventFields = v.object({
  idempotency_key: parsedField(CLAIM, {
    description: "A value that the client chooses, different for each event",
  }),
  occurred_at: parsedField(INSTANT, {
    description: "When the event happened: at most 7 days ago, and at most 5 minutes ahead",
  }),
  ...eventFields.entries,
});

export type EventFields = v.InferOutput<typeof eventFields>;

/**
 * Tells whether the fields pass the quick check; then {@linkcode eventFields} accepts them unchanged. Unknown fields
 * do not matter. An event with metadata never passes: the schema checks it, and most events have no metadata.
 */
export function isPlainEvent(fields: JsonObject): fields is JsonObject & EventFields {
  const { duration_ms: durationMs, success } = fields;
  return (
    isOneOf(EVENT_TYPES, fields.event_type) &&
    isOptionalText(fields.model_name, NAME_CHARACTERS) &&
    (isAbsent(fields.inference_type) || isOneOf(INFERENCE_TYPES, fields.inference_type)) &&
    (isAbsent(durationMs) || (Number.isFinite(durationMs) && (durationMs as number) >= 0)) &&
    (isAbsent(success) || typeof success === "boolean") &&
    isOptionalText(fields.error_message, MESSAGE_CHARACTERS) &&
    isAbsent(fields.metadata)
  );
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null;
}

function isOneOf(words: readonly unknown[], value: unknown): boolean {
  return words.includes(value);
}
