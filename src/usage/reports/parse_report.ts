/**
 * Reads a report. Strict, because the contents become counts that customers pay for: every field has a bound, no field is
 * unknown, and each value has one spelling. The fields must name the license and the machine whose key has signed them.
 *
 * All of it is done in parts of some milliseconds, so that a service answers its clients meanwhile.
 */
import { DAY_MS, toDay } from "../../base/calendar.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import type { ReportKeys } from "../../licensing/signed_licenses/mod.ts";
import { parsePayload } from "./parse_payload.ts";
import { type ReportedEvent, readEvents } from "./read_events.ts";
import { type ReportedMonth, readRows, toMonths } from "./read_rows.ts";
import { demandFields, fail, isWhole, readInstant, Wrong } from "./report_fields.ts";
import { type VerifiedReport, verifyReport, wrong } from "./verify_report.ts";

const MOST_CLIENTS = 64;

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
const CLIENT = /^[\x20-\x7e]{1,64}$/;

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

/**
 * Reads a report and verifies its signature. `text` is its line; the end of the line, and a byte order mark before it, may be
 * there. Refuses every other text with `INVALID_REQUEST`.
 */
export async function parseReport(text: string, keyOf: ReportKeys): Promise<UsageReport | Refusal> {
  const verified = await verifyReport(text, keyOf);
  if (isRefusal(verified)) return verified;
  try {
    return await readPayload(verified);
  } catch (error) {
    if (error instanceof Wrong) return wrong(error.message);
    throw error;
  }
}

async function readPayload(verified: VerifiedReport): Promise<UsageReport> {
  const fields = (await parsePayload(verified.payload)) ?? fail("its contents are not a JSON object");
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
  const rows = await readRows(fields.days, toDay(new Date(madeAt.getTime() + DAY_MS)));
  const events = fields.events === undefined ? [] : await readEvents(fields.events, rows);
  return {
    licenseUuid: verified.licenseUuid,
    machine: verified.machine,
    journal: journal as string,
    number: number as number,
    previous: previous as string | null,
    digest: verified.digest,
    madeAt,
    clients: clients as string[],
    months: toMonths(rows),
    days: new Set(rows.map(({ day }) => day)).size,
    events,
  };
}

function isClient(value: unknown): boolean {
  return typeof value === "string" && CLIENT.test(value);
}
