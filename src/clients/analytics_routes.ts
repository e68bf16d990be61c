/**
 * Takes usage events. An event is acknowledged after its commit, never before. With an `Idempotency-Key` a
 * client can send an event again: within 24 hours it is stored and counted once.
 */
import { hash } from "node:crypto";
import { type Month, monthOf } from "../base/calendar.ts";
import { newUuid, toId } from "../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { redactKeysInEvent, renderWithoutKeys } from "../base/secrets/mod.ts";
import { type KeyRecord, usedIn } from "../licensing/keys/mod.ts";
import { digestEvent, type EventOutcome, type UsageEvent } from "../usage/mod.ts";
import type { JsonObject } from "../wire/mod.ts";
import { andThen, type Eventually, parseFields } from "../wire/mod.ts";
import { type EventFields, eventFields, isPlainEvent } from "./event_fields.ts";
import type { Exchange, Outcome } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import { isUsedUp, remainingOf } from "./license_answer.ts";
import { type EndpointOperation, jsonBody, WITH_BODY, WITH_GOOD_KEY } from "./operation.ts";

const MISSING_EVENT_TYPE = refuse("MISSING_EVENT_TYPE", "event_type is required");
const QUOTA_EXCEEDED = refuse("QUOTA_EXCEEDED", "The monthly quota is used up: the event was not counted");
const NOT_STORABLE = refuse("INVALID_REQUEST", "The event holds a value that cannot be stored");

/** What the request with an event does. */
export const LOG_EVENT: EndpointOperation = {
  id: "logEvent",
  summary: "Log a usage event",
  description:
    "The answer comes after the event is committed. An `inference` uses one unit of the quota; the other types " +
    "use none, and are accepted also when the quota is used up. After a 503 the client cannot know whether the " +
    "event was counted: with an `Idempotency-Key` it can send the event again, and within 24 hours the event is " +
    "stored and counted once. Events are compared by their meaning: the order of names makes no difference, and " +
    "a field that is null or has its default counts as absent. Beyond the room that a license has for texts in a day " +
    "(UTC), an event is stored and counted without `metadata`, `error_message` and a `model_name` of more than 64 " +
    "bytes: then the answer has `truncated`.",
  parameters: [
    {
      in: "header",
      name: "Idempotency-Key",
      description: "A value that the client chooses, different for each event of the license",
      schema: { type: "string", pattern: "^[\\x20-\\x7e]{1,255}$" },
    },
  ],
  request: jsonBody("EventRequest", {
    event_type: "inference",
    model_name: "motor_imagery_4class_v1",
    inference_type: "streaming",
    duration_ms: 12.5,
    metadata: { channels: 8 },
  }),
  success: {
    status: 202,
    schema: "EventLogged",
    description: "The event is committed",
    example: {
      logged: true,
      event_id: "evt_019a0000000070008000000000000000",
      quota: { used: 1_201, remaining: 48_799 },
    },
  },
  codes: [...WITH_GOOD_KEY, ...WITH_BODY, "MISSING_EVENT_TYPE", "QUOTA_EXCEEDED", "CLAIM_MISMATCH"],
};

/** Creates the handler that stores and counts a usage event. */
export function analyticsLog({ authenticator, events, clock }: HandlerDeps): Handler {
  const write = (record: KeyRecord | Refusal, exchange: Exchange, body: JsonObject): Eventually<Outcome> => {
    if (isRefusal(record)) return record;
    const { event_type: type } = body;
    if (type === undefined || type === null || type === "") return MISSING_EVENT_TYPE;
    const claimed = exchange.request.headers.get("idempotency-key");
    // A claim needs the fields in the schema's order and no others: earlier versions compared them in this form.
    const fields = claimed === null && isPlainEvent(body) ? body : parseFields(eventFields, body);
    if (isRefusal(fields)) return fields;
    if (claimed !== null && !CLAIM.test(claimed)) return BAD_CLAIM;
    const receivedAtMs = clock.nowMs();
    const month = monthOf(receivedAtMs);
    // With a claim the event may have been counted before: only the commit can tell.
    if (claimed === null && fields.event_type === "inference" && isUsedUp(record, month))
      return QUOTA_EXCEEDED;
    const event = toEvent(fields, record, receivedAtMs);
    const written = events.write(claimed === null ? event : withClaim(event, { claimed, fields }));
    return written.then((outcome) => toAnswer(outcome, record, month));
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
      return toMismatch(outcome.field);
    case "committed": {
      const used = outcome.used ?? usedIn(record, month.index);
      const quota = `{"used":${used},"remaining":${remainingOf(record, used)}}`;
      const truncated = outcome.isTruncated ? `,"truncated":true` : "";
      // Joined by hand: no value in it needs escaping in JSON.
      const body = `{"logged":true,"event_id":"${toId("evt", outcome.eventUuid)}","quota":${quota}${truncated}}`;
      return { status: 202, body };
    }
  }
}

const CLAIM = /^[\x20-\x7e]{1,255}$/;
const BAD_CLAIM = refuse("INVALID_REQUEST", "Idempotency-Key must be 1 to 255 printable ASCII characters");

function toMismatch(field: string | undefined): Refusal {
  const which = field === undefined ? "" : `, whose ${field} differs`;
  return refuse(
    "CLAIM_MISMATCH",
    `This Idempotency-Key was sent with another event${which}: give each event a key of its own`,
  );
}

/** Returns the event with the claim of its `Idempotency-Key`. */
function withClaim(
  event: UsageEvent,
  { claimed, fields }: { claimed: string; fields: EventFields },
): UsageEvent {
  const claim = {
    hash: hash("sha256", claimed, "hex"),
    digest: digestEvent(event),
    eventHash: hash("sha256", JSON.stringify(fields), "hex"),
  };
  return { ...event, claim };
}

/** Returns the event to store. Keys in its texts are blanked: an error message may contain an address with a key. */
function toEvent(fields: EventFields, record: KeyRecord, receivedAtMs: number): UsageEvent {
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
    claim: null,
  };
}

function redacted(text: string | null | undefined): string | null {
  return text == null ? null : redactKeysInEvent(text);
}
