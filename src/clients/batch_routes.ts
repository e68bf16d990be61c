/**
 * Takes up to a thousand usage events at once, also events that happened some days ago: for programs that had no network. Each
 * event has a time and an `Idempotency-Key` of its own, and is answered for itself.
 *
 * An event is charged to the month in which it happened, within the limit that the license has now. The answer comes after
 * the commit of all events. If the service cannot store one of them, the whole request fails, and the client sends it again:
 * an event that was stored is known by its key for 8 days, and an event that is older than 7 days is refused, known or not.
 * So no event is counted twice, unless it was sent alone first, more than a day before: then its key is forgotten.
 */
import { DAY_MS, monthOf, toMonthText } from "../base/calendar.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import type { KeyRecord } from "../licensing/keys/mod.ts";
import { batchEventFields, type EventOutcome, type UsageEvent } from "../usage/mod.ts";
import { andThen, type JsonObject, parseFields, toJsonObject, toWireCode } from "../wire/mod.ts";
import type { Exchange, Outcome } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import { type EndpointOperation, jsonBody, WITH_BODY, WITH_GOOD_KEY } from "./operation.ts";
import {
  lacksType,
  MISSING_EVENT_TYPE,
  refusalOfEvent,
  renderEventQuota,
  renderLogged,
  toEvent,
  withClaim,
} from "./received_event.ts";

/** The most events of a batch. A limit of events a minute that is lower counts in its place. */
export const MOST_EVENTS = 1_000;
const OLDEST_MS = 7 * DAY_MS;
const AHEAD_MS = 5 * 60_000;

const TOO_OLD = refuse(
  "INVALID_REQUEST",
  "occurred_at must be at most 7 days ago: the event is not counted now",
);
const AHEAD = refuse(
  "INVALID_REQUEST",
  "occurred_at must be at most 5 minutes ahead: the clock of the sender is wrong",
);
const NOT_AN_EVENT = refuse("INVALID_REQUEST", "each of events must be a JSON object");

/** What the request with a batch of events does. */
export const LOG_EVENTS: EndpointOperation = {
  id: "logEvents",
  summary: "Log usage events that happened some time ago",
  description:
    "Up to 1,000 events, each with an `idempotency_key` of its own and the time at which it happened. The answer comes " +
    "after all events are committed, and has a result for each. An `inference` uses one unit of the quota of the month " +
    "in which it happened, under the limit that the license has now; if the month is used up, the event is refused with " +
    "`QUOTA_EXCEEDED`. A time of up to 5 minutes ahead counts as now. The events also count in the limit of " +
    "`/v1/analytics/log`: if there is too little room for all of them, the request is refused with 429 and nothing is " +
    "stored. After any other answer than 200 send the whole batch again: each event is stored and counted once, because " +
    "the service knows its key for 8 days and refuses events that are older than 7 days.",
  request: jsonBody("EventsRequest", {
    events: [
      {
        idempotency_key: "7f3c9a52c1d04be0",
        occurred_at: "2026-10-31T23:59:58.250Z",
        event_type: "inference",
        model_name: "motor_imagery_4class_v1",
        duration_ms: 12.5,
      },
      {
        idempotency_key: "e15b1d0f6a7748c9",
        occurred_at: "2026-11-01T00:00:01.500Z",
        event_type: "inference",
      },
    ],
  }),
  success: {
    status: 200,
    schema: "EventsLogged",
    description: "Each event is committed or refused",
    example: {
      results: [
        {
          logged: true,
          event_id: "evt_019a0000000070008000000000000000",
          month: "2026-10",
          quota: { used: 49_999, remaining: 1 },
        },
        {
          logged: false,
          error: "The monthly quota is used up: the event was not counted",
          code: "QUOTA_EXCEEDED",
          month: "2026-11",
          quota: { used: 50_000, remaining: 0 },
        },
      ],
    },
  },
  codes: [...WITH_GOOD_KEY, ...WITH_BODY],
};

/** An event of a batch, with its place in it. */
interface Dated {
  readonly index: number;
  readonly event: UsageEvent;
}

/** Creates the handler that stores and counts the events of a batch. */
export function analyticsBatch({ authenticator, events, limits, clock }: HandlerDeps): Handler {
  const mostEvents = limits.analytics === 0 ? MOST_EVENTS : Math.min(MOST_EVENTS, limits.analytics);
  const wrongNumber = refuse("INVALID_REQUEST", `events must be a list of 1 to ${mostEvents} events`);

  async function write(record: KeyRecord, exchange: Exchange, sent: readonly unknown[]): Promise<Outcome> {
    const receivedAtMs = clock.nowMs();
    const read = sent.map((event) => readEvent(event, { record, receivedAtMs }));
    const dated = read.flatMap((event, index) => (isRefusal(event) ? [] : [{ index, event }]));
    const results = read.map((event) => (isRefusal(event) ? renderRefused(event) : ""));
    const counted =
      dated.length === 0
        ? undefined
        : await authenticator.countEvents(exchange, { record, units: dated.length });
    if (isRefusal(counted)) return counted;
    exchange.takeBackEvents = counted?.takeBack;
    // The events of one day go together, because a statement charges one day.
    dated.sort((one, other) => timeOf(one) - timeOf(other));
    const written = await Promise.allSettled(
      dated.map(async (each) => ({ ...each, outcome: await events.write(each.event) })),
    );
    const answered = written.map((each) => {
      if (each.status === "rejected") throw each.reason;
      return each.value;
    });
    for (const { index, event, outcome } of answered) {
      if (outcome.kind === "quota_exceeded") exchange.eventsOverQuota++;
      results[index] = renderResult(outcome, { record, atMs: timeOf({ event }) });
    }
    return { status: 200, body: `{"results":[${results.join()}]}` };
  }

  return (exchange, body) =>
    andThen(authenticator.authenticate(exchange, "analytics_batch", body), (record) => {
      if (isRefusal(record)) return record;
      const { events: sent } = body;
      if (!Array.isArray(sent) || sent.length < 1 || sent.length > mostEvents) return wrongNumber;
      return write(record, exchange, sent);
    });
}

/** Returns the event of a batch, or why it is refused. */
function readEvent(
  sent: unknown,
  { record, receivedAtMs }: { readonly record: KeyRecord; readonly receivedAtMs: number },
): UsageEvent | Refusal {
  const given: JsonObject | Refusal = toJsonObject(sent);
  if (isRefusal(given)) return NOT_AN_EVENT;
  if (lacksType(given)) return MISSING_EVENT_TYPE;
  const parsed = parseFields(batchEventFields, given);
  if (isRefusal(parsed)) return parsed;
  const { idempotency_key: claimed, occurred_at: occurredAt, ...fields } = parsed;
  const occurredAtMs = occurredAt.getTime();
  if (receivedAtMs - occurredAtMs > OLDEST_MS) return TOO_OLD;
  if (occurredAtMs - receivedAtMs > AHEAD_MS) return AHEAD;
  return withClaim(toEvent(fields, record, { receivedAtMs, occurredAtMs }), claimed, {
    fields,
    occurredAtMs,
  });
}

function timeOf({ event }: Pick<Dated, "event">): number {
  return event.occurredAtMs ?? event.receivedAtMs;
}

/** Renders the result of an event that belongs to a month, as JSON. */
function renderResult(
  outcome: EventOutcome,
  { record, atMs }: { readonly record: KeyRecord; readonly atMs: number },
): string {
  const month = monthOf((outcome.kind === "committed" ? outcome.chargedAtMs : undefined) ?? atMs);
  const inMonth = `"month":"${toMonthText(month)}"`;
  if (outcome.kind === "committed") return renderLogged(outcome, { record, month, more: `${inMonth},` });
  const isUsedUp = outcome.kind === "quota_exceeded";
  const more = isUsedUp ? `,${inMonth},${renderEventQuota(record, outcome.used)}` : "";
  return renderRefused(refusalOfEvent(outcome), more);
}

/** Renders the result of a refused event as JSON. `more` are further fields, each after a comma. */
function renderRefused({ sentence, code }: Refusal, more = ""): string {
  return `{"logged":false,"error":${JSON.stringify(sentence)},"code":"${toWireCode(code)}"${more}}`;
}
