/** Says what became of a report, as JSON and in words: command, API and console say the same. */
import * as v from "valibot";
import {
  count,
  fieldsOf,
  identifier,
  oneOfThese,
  renderFields,
  timestamp,
} from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { toId } from "../../base/ids.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import type { ReportResult } from "./import_report.ts";
import { type ChangedMonth, MARKS, nameCustomer, nameMachine } from "./standing.ts";

const field = fieldsOf<ReportResult>();

const COUNTS = v.object({ used: count(), over: count() });

export const REPORT_FIELDS = {
  outcome: field(
    v.picklist(["imported", "known", "foreseen"]),
    ({ outcome }) => outcome,
    "`known`: it was imported before, and `months` is what it changed then; `foreseen`: nothing was changed",
  ),
  license_id: field(identifier("lic"), ({ report }) => toId("lic", report.licenseUuid)),
  email: field(v.string(), ({ customer }) => customer.email, "The customer's"),
  organization: field(v.string(), ({ customer }) => customer.organization),
  machine: field(v.string(), ({ report }) => report.machine, "The keyed hash of the fingerprint"),
  machine_id: field(
    v.nullable(identifier("mch")),
    ({ machineUuid }) => machineUuid && toId("mch", machineUuid),
    "Null if the machine never held a place",
  ),
  journal: field(v.string(), ({ report }) => report.journal),
  number: field(count(1), ({ report }) => report.number, "The place in the journal"),
  digest: field(v.string(), ({ report }) => report.digest, "SHA-256 of the line of the report"),
  made_at: field(timestamp(), ({ report }) => toTimestamp(report.madeAt)),
  imported_at: field(
    v.nullable(timestamp()),
    ({ outcome, at }) => (outcome === "foreseen" ? null : toTimestamp(at)),
    "Null if it is only foreseen",
  ),
  clients: field(v.array(v.string()), ({ report }) => [...report.clients], "The clients and their versions"),
  days: field(count(), ({ report }) => report.days, "The days that have a row"),
  events: field(count(), ({ report }) => report.events.length),
  marks: field(v.array(oneOfThese(MARKS)), ({ marks }) => [...marks], "What is unusual"),
  months: field(
    v.array(v.object({ month: v.string(), units: count(), over: count(), before: COUNTS, after: COUNTS })),
    ({ months }) => months.map((month) => ({ ...month })),
    "The units of the report by month, those of them beyond the limit, and the use of the month before and after",
  ),
} as const;

/** Renders what became of a report as JSON. */
export function renderReport(result: ReportResult) {
  return renderFields(REPORT_FIELDS, result);
}

const WORDS: Readonly<Record<string, string>> = {
  suspended: "the license is suspended",
  expired: "the license has expired",
  revoked: "all keys of the license are revoked",
  new_journal: "it begins another journal",
  clock_ahead: "the clock of its machine is ahead",
};

/** Says what became of a report in one line: `Imported report 3 of Engines: 12 units`. */
export function describeReport(result: ReportResult): string {
  const { report, outcome, at, months, marks } = result;
  const of = `report ${report.number} of ${nameCustomer(result)}`;
  const did = {
    imported: `Imported ${of}`,
    foreseen: `Would import ${of}`,
    known: `Already imported at ${toTimestamp(at)}: ${of}`,
  }[outcome];
  const sum = (of: (month: ChangedMonth) => number) => months.reduce((total, month) => total + of(month), 0);
  const [units, over] = [sum((month) => month.units), sum((month) => month.over)];
  const beyond = over > 0 ? `, ${renderCount(over)} of them beyond the limit` : "";
  return [`${did}: ${counted(units, "unit")}${beyond}`, ...marks.map((mark) => WORDS[mark] ?? mark)].join(
    "; ",
  );
}

/** Says from which license and machine a report is. */
export function describeOrigin(result: ReportResult): string {
  return nameMachine(result.report, result);
}
