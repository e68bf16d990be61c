/**
 * Reads the events of a report, in parts, so that a service answers its clients meanwhile: a report can have 100,000 of them.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import * as v from "valibot";
import { toDay } from "../../base/calendar.ts";
import { newUuid } from "../../base/ids.ts";
import { redactKeysInEvent, renderWithoutKeys } from "../../base/secrets/mod.ts";
import type { JsonObject } from "../../wire/mod.ts";
import { CLAIM, type EventFields, eventFields, isPlainEvent } from "../event_fields.ts";
import { type EventType, nameOf, type Row } from "./read_rows.ts";
import { fail, isObject, readInstant } from "./report_fields.ts";

export const MOST_REPORTED_EVENTS = 100_000;
/** How many events are checked before other work has its turn: some milliseconds. */
export const EVENTS_A_TURN = 500;

/** An event as the statement of the import reads it from JSON. Keys in its texts are replaced. */
export interface ReportedEvent {
  readonly id: string;
  readonly occurred_ms: number;
  readonly event_type: EventType;
  readonly model_name: string | null;
  readonly inference_type: string | null;
  readonly duration_ms: number | null;
  readonly success: boolean;
  readonly error_message: string | null;
  readonly metadata: unknown;
}

const EVENT_FIELDS: ReadonlySet<string> = new Set([
  "idempotency_key",
  "occurred_at",
  ...Object.keys(eventFields.entries),
]);

/** Reads the events, and checks that the rows are what they add up to. */
export async function readEvents(value: unknown, rows: readonly Row[]): Promise<ReportedEvent[]> {
  if (!Array.isArray(value) || value.length > MOST_REPORTED_EVENTS)
    fail(`events must be a list of at most ${MOST_REPORTED_EVENTS} events`);
  const sent = value as unknown[];
  const claims = new Set<string>();
  const sums = new Map<string, { count: number; failed: number }>();
  const events: ReportedEvent[] = [];
  for (const [index, each] of sent.entries()) {
    if (index % EVENTS_A_TURN === EVENTS_A_TURN - 1) await nextTurn();
    const { claim, event } = readEvent(each, `events[${index}] `);
    if (claims.has(claim)) fail(`events[${index}] idempotency_key is that of another event`);
    claims.add(claim);
    events.push({ ...event, ...withoutKeys(event) });
    const { event_type: eventType, model_name: modelName } = event;
    const name = nameOf({ day: toDay(new Date(event.occurred_ms)), eventType, modelName });
    const sum = sums.get(name) ?? { count: 0, failed: 0 };
    sum.count++;
    if (!event.success) sum.failed++;
    sums.set(name, sum);
  }
  const fits = (row: Row) => {
    const { count, failed } = sums.get(nameOf(row)) ?? { count: 0, failed: 0 };
    return row.count === count && row.failed === failed;
  };
  const counted = rows.filter(({ count }) => count > 0);
  if (counted.length !== sums.size || !rows.every(fits)) fail("days must be what the events add up to");
  return events;
}

function readEvent(value: unknown, of: string): { readonly claim: string; readonly event: ReportedEvent } {
  if (!isObject(value)) fail(`${of}must be an object`);
  const sent = value as JsonObject;
  for (const name in sent) if (!EVENT_FIELDS.has(name)) fail(`${of}has a field that is not known`);
  const { idempotency_key: claim, occurred_at: occurredAt } = sent;
  if (typeof claim !== "string" || CLAIM.parse(claim) === undefined)
    fail(`${of}idempotency_key must be ${CLAIM.expects}`);
  const fields = isPlainEvent(sent) ? sent : checkFields(sent, of);
  return {
    claim: claim as string,
    event: {
      id: newUuid(),
      occurred_ms: readInstant(occurredAt, `${of}occurred_at`).getTime(),
      event_type: fields.event_type,
      model_name: fields.model_name ?? null,
      inference_type: fields.inference_type ?? null,
      duration_ms: fields.duration_ms ?? null,
      success: fields.success ?? fields.event_type !== "error",
      error_message: fields.error_message ?? null,
      metadata: fields.metadata ?? null,
    },
  };
}

function checkFields(sent: JsonObject, of: string): EventFields {
  const parsed = v.safeParse(eventFields, sent);
  if (parsed.success) return parsed.output;
  const [{ path, message }] = parsed.issues;
  return fail(`${of}${String(path?.[0].key)} ${message}`);
}

/** Replaces keys in the texts of an event: an error message may contain an address with a key. */
function withoutKeys({ model_name, error_message, metadata }: ReportedEvent) {
  return {
    model_name: model_name === null ? null : redactKeysInEvent(model_name),
    error_message: error_message === null ? null : redactKeysInEvent(error_message),
    metadata: metadata === null ? null : JSON.parse(renderWithoutKeys(metadata as JsonObject)),
  };
}
