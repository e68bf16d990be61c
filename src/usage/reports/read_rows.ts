/** Reads the rows of a report: how often each kind of event happened on a day with a model. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { DAY } from "../../base/calendar.ts";
import { isOptionalText, type JsonObject } from "../../wire/mod.ts";
import { EVENT_TYPES } from "../event.ts";
import { NAME_CHARACTERS } from "../event_fields.ts";
import { demandFields, fail, isObject, isWhole } from "./report_fields.ts";

const MOST_ROWS = 20_000;
const ROWS_A_TURN = 500;
/** The units of a row; the sum of all rows stays a number that JSON has exactly. */
const MOST_COUNT = 100_000_000_000;
const FIRST_DAY = "2020-01-01";
const DAYS_OF_MONTH = 31;
const ROW_FIELDS = ["day", "event_type", "model_name", "count", "failed"];

export type EventType = (typeof EVENT_TYPES)[number];

/** The use of a month by day: `byDay[0]` is the first. */
export interface ReportedMonth {
  /** `2026-11-01`. */
  readonly firstDay: string;
  /** The units, which are the inferences. */
  readonly units: number;
  readonly byDay: readonly number[];
}

export interface Row {
  readonly day: string;
  readonly eventType: EventType;
  readonly modelName: string | null;
  readonly count: number;
  readonly failed: number;
}

/** Reads the rows, in parts, so that a service answers its clients meanwhile. `lastDay` is the latest day of a row. Throws `Wrong`. */
export async function readRows(value: unknown, lastDay: string): Promise<Row[]> {
  if (!Array.isArray(value) || value.length > MOST_ROWS)
    fail(`days must be a list of at most ${MOST_ROWS} rows`);
  const names = new Set<string>();
  const rows: Row[] = [];
  for (const [index, row] of (value as unknown[]).entries()) {
    if (index % ROWS_A_TURN === ROWS_A_TURN - 1) await nextTurn();
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
    rows.push(read);
  }
  return rows;
}

/** Names what a row counts. A kind and a day have no space. */
export function nameOf({ day, eventType, modelName }: Pick<Row, "day" | "eventType" | "modelName">): string {
  return `${day} ${eventType} ${modelName === null ? "" : `"${modelName}`}`;
}

/** Adds the inferences of the rows up by month. Other kinds use no quota. */
export function toMonths(rows: readonly Row[]): ReportedMonth[] {
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
