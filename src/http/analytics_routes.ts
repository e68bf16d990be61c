/**
 * The intake of usage events: acknowledged when they are committed, and not before. With an
 * `Idempotency-Key` an event can be sent again: within 24 hours it is stored and counted once.
 */
import { hash } from "node:crypto";
import * as v from "valibot";
import { type Month, monthOf } from "../calendar.ts";
import { newUuid, toId } from "../ids.ts";
import { type KeyRecord, usedIn } from "../keys/mod.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { redactKeysInEvent, renderWithoutKeys } from "../secrets/mod.ts";
import {
  type Claim,
  EVENT_TYPES,
  type EventOutcome,
  INFERENCE_TYPES,
  type UsageEvent,
} from "../usage/mod.ts";
import { andThen, type Eventually } from "./eventually.ts";
import type { Exchange, Outcome } from "./exchange.ts";
import { optionalMetadata, optionalText, parseFields } from "./fields.ts";
import type { Handler, Parts } from "./handler.ts";
import { isUsedUp, remainingOf } from "./license_answer.ts";
import type { JsonObject } from "./read_body.ts";

/** What an event has beside its key. */
export const eventFields = v.object({
  event_type: v.picklist(EVENT_TYPES, `event_type must be one of ${EVENT_TYPES.join(", ")}`),
  model_name: optionalText("model_name", 200),
  inference_type: v.nullish(
    v.picklist(INFERENCE_TYPES, `inference_type must be one of ${INFERENCE_TYPES.join(", ")}`),
  ),
  duration_ms: v.nullish(
    v.pipe(
      v.number("duration_ms must be a number"),
      v.finite("duration_ms must be finite"),
      v.minValue(0, "duration_ms must not be negative"),
    ),
  ),
  success: v.nullish(v.boolean("success must be true or false")),
  error_message: optionalText("error_message", 2_000),
  metadata: optionalMetadata("metadata"),
});

const MISSING_EVENT_TYPE = refuse("MISSING_EVENT_TYPE", "event_type is required");
const QUOTA_EXCEEDED = refuse("QUOTA_EXCEEDED", "The monthly quota is used up: the event was not counted");
const NOT_STORABLE = refuse("INVALID_REQUEST", "The event holds a value that cannot be stored");

export function analyticsLog({ authenticator, events, clock }: Parts): Handler {
  const write = (record: KeyRecord | Refusal, exchange: Exchange, body: JsonObject): Eventually<Outcome> => {
    if (isRefusal(record)) return record;
    const { event_type: type } = body;
    if (type === undefined || type === null || type === "") return MISSING_EVENT_TYPE;
    const fields = parseFields(eventFields, body);
    if (isRefusal(fields)) return fields;
    const claim = readClaim(exchange.request, fields);
    if (isRefusal(claim)) return claim;
    const receivedAtMs = clock.nowMs();
    const month = monthOf(receivedAtMs);
    // With a claim it may be an event that was counted before: only the commit can tell.
    if (claim === null && fields.event_type === "inference" && isUsedUp(record, month)) return QUOTA_EXCEEDED;
    const event = toEvent(fields, record, { receivedAtMs, claim });
    return events.write(event).then((outcome) => toAnswer(outcome, record, month));
  };
  return (exchange, body) =>
    andThen(authenticator.authenticate(exchange, "analytics", body), (record) =>
      write(record, exchange, body),
    );
}

function toAnswer(outcome: EventOutcome, record: KeyRecord, month: Month): Outcome {
  switch (outcome.kind) {
    case "quota_exceeded":
      return QUOTA_EXCEEDED;
    case "not_storable":
      return NOT_STORABLE;
    case "claim_mismatch":
      return CLAIM_MISMATCH;
    case "committed": {
      const used = outcome.used ?? usedIn(record, month.index);
      const quota = `{"used":${used},"remaining":${remainingOf(record, used)}}`;
      // Put together by hand: there is nothing in it that JSON would escape.
      const body = `{"logged":true,"event_id":"${toId("evt", outcome.eventUuid)}","quota":${quota}}`;
      return { status: 202, body };
    }
  }
}

const CLAIM_MISMATCH = refuse(
  "CLAIM_MISMATCH",
  "This Idempotency-Key was sent with another event: give each event a key of its own",
);
const BAD_CLAIM = refuse("INVALID_REQUEST", "Idempotency-Key must be 1 to 255 printable ASCII characters");

/** The claim of the `Idempotency-Key` header; null without one. */
function readClaim(request: Request, fields: v.InferOutput<typeof eventFields>): Claim | null | Refusal {
  const value = request.headers.get("idempotency-key");
  if (value === null) return null;
  if (!/^[\x20-\x7e]{1,255}$/.test(value)) return BAD_CLAIM;
  return { hash: hash("sha256", value, "hex"), eventHash: hash("sha256", JSON.stringify(fields), "hex") };
}

/** The event as it is kept: without the keys that a client's texts may hold, such as an address in an error. */
function toEvent(
  fields: v.InferOutput<typeof eventFields>,
  record: KeyRecord,
  { receivedAtMs, claim }: Pick<UsageEvent, "receivedAtMs" | "claim">,
): UsageEvent {
  return {
    uuid: newUuid(),
    receivedAtMs,
    keyUuid: record.uuid,
    licenseUuid: record.licenseUuid,
    type: fields.event_type,
    modelName: redacted(fields.model_name),
    inferenceType: fields.inference_type ?? null,
    durationMs: fields.duration_ms ?? null,
    success: fields.success ?? fields.event_type !== "error",
    errorMessage: redacted(fields.error_message),
    metadata: fields.metadata == null ? null : renderWithoutKeys(fields.metadata),
    claim,
  };
}

function redacted(text: string | null | undefined): string | null {
  return text == null ? null : redactKeysInEvent(text);
}
