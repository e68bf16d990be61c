/**
 * What lists share: the options of conditions, `--search`, `--limit` and `--after`, and the note about further rows.
 */

import {
  type Condition,
  type ConditionValue,
  type ConditionValues,
  type ListConditions,
  YES,
} from "../base/condition.ts";
import { type IdKind, idRule } from "../base/ids.ts";
import { wholeNumber } from "../base/rule.ts";
import { type PagesOptions, readPages } from "../database/mod.ts";
import { type ListPart, SEARCH_TEXT, SEARCHED, searchAccounts, TOO_WIDE } from "../licensing/mod.ts";
import type { DatabaseCall } from "./command.ts";
import { flag, option, type Parameter, type ValuesOf } from "./parameter.ts";
import type { Pages, Printer, RowForms } from "./print.ts";

/** Returns the option by which a list has at most this many rows. */
export function limitOption(most: number) {
  return { limit: option("show at most this many rows", wholeNumber(1, most), { as: "n", default: 100 }) };
}

/** Returns the options of a list of keys or accounts: search, limit and the row after which the list begins. */
export function listOptions(kind: IdKind) {
  return {
    search: option(`only rows that match: ${SEARCHED}`, SEARCH_TEXT, { as: "text" }),
    ...limitOption(2_000_000),
    after: option("show the rows after the one with this id", idRule(kind), { as: "id" }),
  };
}

type Camel<Name> = Name extends `${infer First}_${infer Rest}` ? `${First}${Capitalize<Camel<Rest>>}` : Name;

/** A condition without a value, which is only asked for or not, becomes an option without a value. */
type OptionOf<Of> =
  Of extends Condition<typeof YES> ? Parameter<boolean> : Parameter<ConditionValue<Of> | undefined>;

type ConditionOptions<Of extends ListConditions> = {
  readonly [Name in keyof Of as Camel<Name>]: OptionOf<Of[Name]>;
};

/** Returns the conditions of a list as options: `near_quota` is `--near-quota`. */
export function conditionOptions<const Of extends ListConditions>(conditions: Of): ConditionOptions<Of> {
  const options = Object.entries(conditions).map(([name, { says, reader, ...details }]) => [
    toOptionName(name),
    reader === YES ? flag(says) : option<typeof reader>(says, reader, details),
  ]);
  return Object.fromEntries(options);
}

/** Returns the conditions that the options of a command ask for. */
export function conditionsOf<const Of extends ListConditions>(
  conditions: Of,
  values: ValuesOf<ConditionOptions<Of>>,
): ConditionValues<Of> {
  const given = values as Readonly<Record<string, unknown>>;
  const asked = Object.keys(conditions).flatMap((name) => {
    const value = given[toOptionName(name)];
    return value === undefined || value === false ? [] : [[name, value === true ? YES[0] : value]];
  });
  return Object.fromEntries(asked);
}

function toOptionName(name: string): string {
  return name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}

interface List<Row> extends RowForms<Row>, Pick<PagesOptions<Row>, "positionOf"> {
  /** Reads a part of the list. */
  readonly read: (part: ListPart) => Promise<readonly Row[]>;
}

/** Prints the rows of a list of keys or accounts, page by page. */
export async function printList<Row extends { readonly id: string }>(
  call: DatabaseCall,
  { search: text, limit, after }: ValuesOf<ReturnType<typeof listOptions>>,
  { read, positionOf, ...forms }: List<Row>,
): Promise<void> {
  const search = text === undefined ? undefined : await searchAccounts(call.database, text);
  if (search?.isTooWide) call.print.warn(TOO_WIDE);
  const pages = readPages({
    read: (afterUuid, most) => read({ search, afterUuid, limit: most }),
    positionOf,
    after,
    // One row more than is shown tells whether there are more.
    most: limit + 1,
  });
  const next = ({ id }: Row) => `the next rows with --after ${id}`;
  await printRows(call.print, whileRead(pages, call), { limit, next, ...forms });
}

/** Passes the parts of a list on until nobody reads the output any more. Ends the command if a signal has come. */
export async function* whileRead<Part>(
  parts: AsyncIterable<Part>,
  { invocation, stopIfInterrupted }: Pick<DatabaseCall, "invocation" | "stopIfInterrupted">,
): AsyncGenerator<Part, undefined> {
  for await (const part of parts) {
    yield part;
    if (invocation.outputFault?.() !== undefined) return;
    stopIfInterrupted();
  }
}

interface RowsOptions<Row> extends RowForms<Row> {
  readonly limit: number;
  /** The name of the rows that are left out; `more rows` by default. */
  readonly further?: string;
  /** How to see them, besides with a higher limit. */
  readonly next?: (last: Row) => string;
}

/** Prints at most `limit` of the rows that were found, and says how to see further rows, if more were found. */
export async function printRows<Row>(
  print: Printer,
  found: Pages<Row>,
  { limit, further = "more rows", next, ...forms }: RowsOptions<Row>,
): Promise<void> {
  let left = limit;
  let last: Row | undefined;
  let hasMore = false;
  async function* firstRows() {
    for await (const page of found) {
      const rows = page.slice(0, left);
      yield rows;
      last = rows.at(-1) ?? last;
      left -= rows.length;
      hasMore = rows.length < page.length;
    }
  }
  await print.rows(firstRows(), forms);
  if (!hasMore || last === undefined) return;
  const orElse = next === undefined ? "" : `, or show ${next(last)}`;
  print.warn(`There are ${further}: raise --limit above ${limit}${orElse}`);
}
