/**
 * Takes usage events. An event is acknowledged after its commit, never before. With an `Idempotency-Key` a
 * client can send an event again: within 24 hours it is stored and counted once.
 */
import { monthOf } from "../base/calendar.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import type { KeyRecord } from "../licensing/keys/mod.ts";
import { CLAIM, eventFields, isPlainEvent } from "../usage/mod.ts";
import type { JsonObject } from "../wire/mod.ts";
import { andThen, type Eventually, parseFields } from "../wire/mod.ts";
import type { Exchange, Outcome } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import { isUsedUp } from "./license_answer.ts";
import { type EndpointOperation, jsonBody, WITH_BODY, WITH_GOOD_KEY } from "./operation.ts";
import {
  lacksType,
  MISSING_EVENT_TYPE,
  QUOTA_EXCEEDED,
  refusalOfEvent,
  renderLogged,
  toEvent,
  withClaim,
} from "./received_event.ts";

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
      schema: { type: "string", ...CLAIM.keywords },
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
    if (lacksType(body)) return MISSING_EVENT_TYPE;
    const claimed = exchange.request.headers.get("idempotency-key");
    // A claim needs the fields in the schema's order and no others: earlier versions compared them in this form.
    const fields = claimed === null && isPlainEvent(body) ? body : parseFields(eventFields, body);
    if (isRefusal(fields)) return fields;
    if (claimed !== null && CLAIM.parse(claimed) === undefined) return BAD_CLAIM;
    const receivedAtMs = clock.nowMs();
    const month = monthOf(receivedAtMs);
    // With a claim the event may have been counted before: only the commit can tell.
    if (claimed === null && fields.event_type === "inference" && isUsedUp(record, month))
      return QUOTA_EXCEEDED;
    const event = toEvent(fields, record, { receivedAtMs });
    const written = events.write(claimed === null ? event : withClaim(event, claimed, { fields }));
    return written.then((outcome) =>
      outcome.kind === "committed"
        ? { status: 202, body: renderLogged(outcome, { record, month }) }
        : refusalOfEvent(outcome),
    );
  };
  return (exchange, body) =>
    andThen(authenticator.authenticate(exchange, "analytics", body), (record) =>
      write(record, exchange, body),
    );
}

const BAD_CLAIM = refuse("INVALID_REQUEST", `Idempotency-Key must be ${CLAIM.expects}`);
