/**
 * Reads a report: a compact JWS on one line, with HMAC-SHA256. Strict, because the contents become counts that customers pay
 * for: every field has a bound, no field is unknown, and each value has one spelling.
 *
 * The license and the machine choose the key of the signature, so they are looked for in the text before it is verified. Nothing
 * else is believed before that, and no JSON is parsed. After that the parsed fields must name the same two.
 *
 * A large report is checked in parts, so that a service answers its clients meanwhile.
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import * as v from "valibot";
import { decodeBase64url } from "../../base/base64url.ts";
import { DAY, DAY_MS, INSTANT, toDay } from "../../base/calendar.ts";
import { newUuid, parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { redactKeysInEvent, renderWithoutKeys } from "../../base/secrets/mod.ts";
import type { ReportKeys } from "../../licensing/signed_licenses/mod.ts";
import { isOptionalText, type JsonObject } from "../../wire/mod.ts";
import { EVENT_TYPES } from "../event.ts";
import { CLAIM, type EventFields, eventFields, isPlainEvent, NAME_CHARACTERS } from "../event_fields.ts";

/** The largest report that is read. */
export const REPORT_LIMIT_BYTES = 32 * 1024 * 1024;
export const MOST_REPORTED_EVENTS = 100_000;
const MOST_ROWS = 20_000;
const MOST_CLIENTS = 64;
const MOST_HEADER_CHARACTERS = 200;
/** The units of a row; the sum of all rows stays a number that JSON has exactly. */
const MOST_COUNT = 100_000_000_000;
const FIRST_DAY = "2020-01-01";
const DAYS_OF_MONTH = 31;
/** How many events are checked before other work has its turn: some milliseconds. */
const EVENTS_A_TURN = 500;

type EventType = (typeof EVENT_TYPES)[number];

/** The use of a month by day: `byDay[0]` is the first. */
export interface ReportedMonth {
  /** `2026-11-01`. */
  readonly firstDay: string;
  /** The units, which are the inferences. */
  readonly units: number;
  readonly byDay: readonly number[];
}

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

export interface UsageReport {
  readonly licenseUuid: string;
  /** 64 hexadecimal digits. */
  readonly machine: string;
  /** 32 hexadecimal digits. */
  readonly journal: string;
  readonly number: number;
  /** The digest of the report before; null for the first of a journal. */
  readonly previous: string | null;
  /** SHA-256 of the line, 64 hexadecimal digits. */
  readonly digest: string;
  readonly madeAt: Date;
  readonly clients: readonly string[];
  /** The months with use, the first one first. */
  readonly months: readonly ReportedMonth[];
  /** How many days have a row. */
  readonly days: number;
  readonly events: readonly ReportedEvent[];
}

const HEX_64 = /^[0-9a-f]{64}$/;
const HEX_32 = /^[0-9a-f]{32}$/;
/** The two names as JSON has them, with or without spaces. The first place counts. */
const LICENSE_IN_TEXT = /"license_id"\s{0,4}:\s{0,4}"(lic_[0-9a-f]{32})"/;
const MACHINE_IN_TEXT = /"machine"\s{0,4}:\s{0,4}"([0-9a-f]{64})"/;
const CLIENT = /^[\x20-\x7e]{1,64}$/;
/** Longer texts are no time. */
const MOST_TIME_CHARACTERS = 40;

const FIELDS = [
  "version",
  "license_id",
  "machine",
  "journal",
  "number",
  "previous",
  "made_at",
  "clients",
  "days",
];
const ROW_FIELDS = ["day", "event_type", "model_name", "count", "failed"];
const EVENT_FIELDS: ReadonlySet<string> = new Set([
  "idempotency_key",
  "occurred_at",
  ...Object.keys(eventFields.entries),
]);

/** Thrown inside this file alone: why the report is refused. */
class Wrong extends Error {}

/** Refuses a report; `why` ends the sentence. */
function wrong(why: string): Refusal {
  return refuse("INVALID_REQUEST", `Cannot import report: ${why}`);
}

/**
 * Reads a report and verifies its signature. `text` is the line, with or without its newline. Refuses every other text with
 * `INVALID_REQUEST`.
 */
export async function parseReport(text: string, keyOf: ReportKeys): Promise<UsageReport | Refusal> {
  const line = text.endsWith("\n") ? text.slice(0, -1) : text;
  if (line.length > REPORT_LIMIT_BYTES) return wrong(`it has more than ${REPORT_LIMIT_BYTES} bytes`);
  const verified = verify(line, keyOf);
  if (isRefusal(verified)) return verified;
  try {
    return await readPayload(verified, createHash("sha256").update(line).digest("hex"));
  } catch (error) {
    if (error instanceof Wrong) return wrong(error.message);
    throw error;
  }
}

interface Verified {
  readonly licenseId: string;
  readonly licenseUuid: string;
  readonly machine: string;
  readonly payload: Buffer;
}

const NOT_A_REPORT = wrong(
  "the text is no report of use: three parts of base64url on one line, joined by points",
);
const FORGED = wrong(
  "its signature does not fit: it was changed, or its license was not exported by this installation",
);

function verify(line: string, keyOf: ReportKeys): Verified | Refusal {
  const [head = "", body = "", signature = "", ...more] = line.split(".", 4);
  if (more.length > 0 || head.length > MOST_HEADER_CHARACTERS || signature.length !== SIGNATURE_CHARACTERS)
    return NOT_A_REPORT;
  const header = decodeBase64url(head);
  const payload = decodeBase64url(body);
  if (!header?.length || !payload?.length) return NOT_A_REPORT;
  const fields = parseJson(header);
  if (fields?.alg !== "HS256" || fields.typ !== TYPE || Object.keys(fields).length !== 2)
    return wrong(`its header is not that of a report of use (HS256, ${TYPE})`);
  // Each byte is a character, so that any bytes can be searched.
  const searched = payload.toString("latin1");
  const licenseId = LICENSE_IN_TEXT.exec(searched)?.[1] ?? "";
  const machine = MACHINE_IN_TEXT.exec(searched)?.[1];
  const licenseUuid = parseId("lic", licenseId);
  if (licenseUuid === undefined || machine === undefined) return wrong("it names no license and machine");
  const key = Buffer.from(keyOf({ licenseUuid, hash: machine }), "base64url");
  const expected = createHmac("sha256", key).update(`${head}.${body}`).digest("base64url");
  // Texts are compared and not decoded bytes, so that a signature has one spelling.
  const given = Buffer.from(signature);
  if (given.length !== expected.length || !timingSafeEqual(Buffer.from(expected), given)) return FORGED;
  return { licenseId, licenseUuid, machine, payload };
}

const TYPE = "usage-report+jwt";
const SIGNATURE_CHARACTERS = 43;

/** Parses an object; undefined for every other text, also one that is no UTF-8. */
function parseJson(bytes: Buffer): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(
      new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
    );
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

async function readPayload(verified: Verified, digest: string): Promise<UsageReport> {
  const fields = parseJson(verified.payload) ?? fail("its contents are not a JSON object");
  demandFields(fields, FIELDS, { optional: "events" });
  const { number, previous, journal, clients } = fields;
  if (fields.version !== 1) fail("version must be 1; a newer Claviger may read it");
  if (fields.license_id !== verified.licenseId) fail("license_id stands in it twice");
  if (fields.machine !== verified.machine) fail("machine stands in it twice");
  if (typeof journal !== "string" || !HEX_32.test(journal)) fail("journal must be 32 hexadecimal digits");
  if (!isWhole(number) || number < 1) fail("number must be a whole number, at least 1");
  if (previous !== null && (typeof previous !== "string" || !HEX_64.test(previous)))
    fail("previous must be null or 64 hexadecimal digits");
  if ((number === 1) !== (previous === null))
    fail("previous must be null in the first report and in no other");
  const madeAt = readInstant(fields.made_at, "made_at");
  if (!Array.isArray(clients) || clients.length > MOST_CLIENTS || !clients.every(isClient))
    fail(`clients must be at most ${MOST_CLIENTS} texts of 1 to 64 printable ASCII characters`);
  const rows = readRows(fields.days, toDay(new Date(madeAt.getTime() + DAY_MS)));
  const events = fields.events === undefined ? [] : await readEvents(fields.events, rows);
  return {
    licenseUuid: verified.licenseUuid,
    machine: verified.machine,
    journal: journal as string,
    number: number as number,
    previous: previous as string | null,
    digest,
    madeAt,
    clients: clients as string[],
    months: toMonths(rows),
    days: new Set(rows.map(({ day }) => day)).size,
    events,
  };
}

function fail(why: string): never {
  throw new Wrong(why);
}

function demandFields(
  fields: JsonObject,
  known: readonly string[],
  { optional, of = "" }: { readonly optional?: string; readonly of?: string } = {},
): void {
  for (const name of known) if (!Object.hasOwn(fields, name)) fail(`${of}${name} is required`);
  const unknown = Object.keys(fields).some((name) => !known.includes(name) && name !== optional);
  if (unknown) fail(`${of === "" ? "the report" : of.slice(0, -1)} has a field that is not known`);
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

function isClient(value: unknown): boolean {
  return typeof value === "string" && CLIENT.test(value);
}

function readInstant(value: unknown, name: string): Date {
  const at =
    typeof value === "string" && value.length <= MOST_TIME_CHARACTERS ? INSTANT.parse(value) : undefined;
  return at ?? fail(`${name} must be ${INSTANT.expects}`);
}

interface Row {
  readonly day: string;
  readonly eventType: EventType;
  readonly modelName: string | null;
  readonly count: number;
  readonly failed: number;
}

function readRows(value: unknown, lastDay: string): Row[] {
  if (!Array.isArray(value) || value.length > MOST_ROWS)
    fail(`days must be a list of at most ${MOST_ROWS} rows`);
  const names = new Set<string>();
  return (value as unknown[]).map((row, index) => {
    const of = `days[${index}] `;
    if (!isObject(row)) fail(`${of}must be an object`);
    const fields = row as JsonObject;
    demandFields(fields, ROW_FIELDS, { of });
    const { day, count, failed, model_name: modelName } = fields;
    if (typeof day !== "string" || DAY.parse(day) === undefined || day < FIRST_DAY || day > lastDay)
      fail(`${of}day must be from ${FIRST_DAY} to ${lastDay}, the day after made_at`);
    const eventType = EVENT_TYPES.find((type) => type === fields.event_type);
    if (eventType === undefined) fail(`${of}event_type must be one of ${EVENT_TYPES.join(", ")}`);
    if (!isOptionalText(modelName, NAME_CHARACTERS))
      fail(`${of}model_name must be null or a text of at most ${NAME_CHARACTERS} characters`);
    if (!isWhole(count) || count < 0 || count > MOST_COUNT)
      fail(`${of}count must be from 0 to ${MOST_COUNT}`);
    if (!isWhole(failed) || failed < 0 || failed > (count as number))
      fail(`${of}failed must be from 0 to count`);
    const read = { day, eventType, modelName: modelName ?? null, count, failed } as Row;
    const name = nameOf(read);
    if (names.has(name)) fail(`${of}has the day, the kind and the model of another row`);
    names.add(name);
    return read;
  });
}

/** Names what a row counts. A kind and a day have no space. */
function nameOf({ day, eventType, modelName }: Pick<Row, "day" | "eventType" | "modelName">): string {
  return `${day} ${eventType} ${modelName === null ? "" : `"${modelName}`}`;
}

/** Reads the events, and checks that the rows are what they add up to. */
async function readEvents(value: unknown, rows: readonly Row[]): Promise<ReportedEvent[]> {
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

/** Adds the inferences of the rows up by month. Other kinds use no quota. */
function toMonths(rows: readonly Row[]): ReportedMonth[] {
  const months = new Map<string, number[]>();
  for (const { day, eventType, count } of rows) {
    if (eventType !== "inference" || count === 0) continue;
    const firstDay = `${day.slice(0, 7)}-01`;
    const byDay = months.get(firstDay) ?? new Array<number>(DAYS_OF_MONTH).fill(0);
    const index = Number(day.slice(8)) - 1;
    byDay[index] = (byDay[index] ?? 0) + count;
    months.set(firstDay, byDay);
  }
  return [...months]
    .map(([firstDay, byDay]) => ({ firstDay, byDay, units: byDay.reduce((sum, units) => sum + units, 0) }))
    .sort((one, other) => (one.firstDay < other.firstDay ? -1 : 1));
}
