/** What one event and an event of a batch have in common: how its fields become an event, and what its outcome says. */
import { hash } from "node:crypto";
import type { Month } from "../base/calendar.ts";
import { newUuid, toId } from "../base/ids.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { redactKeysInEvent, renderWithoutKeys } from "../base/secrets/mod.ts";
import { type KeyRecord, usedIn } from "../licensing/keys/mod.ts";
import { digestEvent, type EventFields, type EventOutcome, type UsageEvent } from "../usage/mod.ts";
import { remainingOf } from "./license_answer.ts";

export const MISSING_EVENT_TYPE = refuse("MISSING_EVENT_TYPE", "event_type is required");
export const QUOTA_EXCEEDED = refuse(
  "QUOTA_EXCEEDED",
  "The monthly quota is used up: the event was not counted",
);
const NOT_STORABLE = refuse("INVALID_REQUEST", "The event holds a value that cannot be stored");

interface Received {
  readonly receivedAtMs: number;
  /** Of an event of a batch: when it happened. */
  readonly occurredAtMs?: number;
}

/** Tells whether the fields lack the type of the event: then that is the answer, whatever else is wrong. */
export function lacksType({ event_type: type }: Readonly<Record<string, unknown>>): boolean {
  return type === undefined || type === null || type === "";
}

/** Returns the event to store. Keys in its texts are blanked: an error message may contain an address with a key. */
export function toEvent(fields: EventFields, record: KeyRecord, received: Received): UsageEvent {
  const { receivedAtMs, occurredAtMs } = received;
  return {
    uuid: newUuid(),
    receivedAtMs,
    // An event that a clock dates ahead happened at the latest now. So no event is charged to a month that has not begun.
    occurredAtMs: occurredAtMs === undefined ? null : Math.min(occurredAtMs, receivedAtMs),
    keyUuid: record.uuid,
    licenseUuid: record.licenseUuid,
    type: fields.event_type,
    modelName: redacted(fields.model_name),
    inferenceType: fields.inference_type ?? null,
    durationMs: fields.duration_ms ?? null,
    success: fields.success ?? fields.event_type !== "error",
    errorMessage: redacted(fields.error_message),
    metadata: fields.metadata == null ? null : renderWithoutKeys(fields.metadata),
    claim: null,
  };
}

/** Returns the event with the claim of its `Idempotency-Key`. `fields` are in the order of the schema. */
export function withClaim(
  event: UsageEvent,
  claimed: string,
  { fields, occurredAtMs }: { readonly fields: EventFields; readonly occurredAtMs?: number },
): UsageEvent {
  const claim = {
    hash: hash("sha256", claimed, "hex"),
    digest: digestEvent(event),
    occurredAtMs: occurredAtMs ?? null,
    eventHash: hash("sha256", JSON.stringify(fields), "hex"),
  };
  return { ...event, claim };
}

/** An event that was stored, now or earlier. */
export type Stored = Extract<EventOutcome, { kind: "committed" }>;

/** Returns the refusal of an event that was not stored. */
export function refusalOfEvent(outcome: Exclude<EventOutcome, Stored>): Refusal {
  switch (outcome.kind) {
    case "quota_exceeded":
      return QUOTA_EXCEEDED;
    case "not_storable":
      return NOT_STORABLE;
    case "claim_mismatch":
      return toMismatch(outcome.field);
  }
}

function toMismatch(field: string | undefined): Refusal {
  const which = field === undefined ? "" : `, whose ${field} differs`;
  return refuse(
    "CLAIM_MISMATCH",
    `This Idempotency-Key was sent with another event${which}: give each event a key of its own`,
  );
}

/**
 * Renders the result of a stored event as JSON; `used` by default as the record knows it. `more` stands before the quota, such
 * as `"month":"2026-11",`.
 */
export function renderLogged(
  outcome: Stored,
  { record, month, more = "" }: { readonly record: KeyRecord; readonly month: Month; readonly more?: string },
): string {
  const quota = renderEventQuota(record, outcome.used ?? usedIn(record, month.index));
  const truncated = outcome.isTruncated ? `,"truncated":true` : "";
  // Joined by hand: no value in it needs escaping in JSON.
  return `{"logged":true,"event_id":"${toId("evt", outcome.eventUuid)}",${more}${quota}${truncated}}`;
}

/** Renders the quota as JSON: the units used in a month, and what remains of it under the present limit. */
export function renderEventQuota(record: KeyRecord, used: number): string {
  return `"quota":{"used":${used},"remaining":${remainingOf(record, used)}}`;
}

function redacted(text: string | null | undefined): string | null {
  return text == null ? null : redactKeysInEvent(text);
}
