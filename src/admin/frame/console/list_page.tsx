/** @jsxImportSource hono/jsx */
/**
 * A list of the console is one record: its conditions, its order, how its rows are found, its columns, and its CSV. The
 * page, its links to the other pages, and the download come from the record.
 */
import type { Child } from "hono/jsx";
import * as v from "valibot";
import { toDay } from "../../../base/calendar.ts";
import { isRefusal, type Refusal, refuse } from "../../../base/refusal.ts";
import { redactKeys } from "../../../base/secrets/mod.ts";
import { readPages } from "../../../database/mod.ts";
import { splitMark, streamCsv } from "../stream_csv.ts";
import type { Script } from "./assets.ts";
import { Notice } from "./components/layout.tsx";
import {
  type PageOfList,
  Pages,
  type Readable,
  readPage,
  renderOrder,
  renderPlace,
  toAddress,
} from "./components/list.tsx";
import { type Column, Table } from "./components/table.tsx";
import { Foreign } from "./components/values.tsx";
import { type Asked, nameConditions, readConditions } from "./conditions.ts";
import type { FieldsOf } from "./form_fields.ts";
import type { Need } from "./may.ts";
import { withChosenOrder } from "./order_cookie.ts";
import type { Page } from "./page.tsx";
import { type ConsoleRoute, DONE, page } from "./route.ts";
import type { Visit } from "./visit.ts";

/** `after` is the position after which a page begins. */
type WithAfter = v.ObjectEntries & { readonly after: v.GenericSchema<unknown, string | undefined> };

/** The rows that meet the conditions. Positions were read from the address. */
export interface Found<Row> extends Readable<Row> {
  /** Why some rows that meet the conditions are missing. */
  readonly warning?: string | undefined;
  /** What stands above the rows. */
  readonly note?: Child;
  /** Reads the rows for a download, if the page joins some of them. */
  readonly readAll?: Readable<Row>["read"];
}

/** The conditions of a list, and how many rows meet them if they were counted. */
export interface Listed extends Pick<Asked<v.ObjectEntries>, "entered"> {
  readonly total: number | undefined;
}

export interface List<Entries extends WithAfter, Row> {
  readonly title: string;
  /** Below `/console`. */
  readonly path: string;
  readonly scope: Need;
  readonly script?: Script;
  /** The conditions, and `after`. */
  readonly entries: Entries;
  find(visit: Visit, conditions: FieldsOf<Entries>): Found<Row> | Refusal | Promise<Found<Row> | Refusal>;
  /** Returns the position of a row: the text of `after` for the page behind it, and of `before` for the one before it. */
  toAfter(row: Row): string;
  /** Makes the fields narrower, so that they fit beside each other. */
  readonly hasManyFields?: true;
  /** The fields of the conditions; without them the list has no form. */
  Fields?(asked: Asked<Entries>): Child;
  columns(visit: Visit): readonly Column<Row>[];
  /** The order in which `find` reads the rows, as a value of the condition `sort`; the caption says it. */
  readonly order: string;
  /** What a row is, such as `key`. */
  readonly noun: string;
  /** Adds up the rows of a page at the end of the caption. */
  sumUp?(rows: readonly Row[]): string;
  /** Says that no row meets the conditions. */
  readonly noneMeets: string;
  /** Says that the list is empty. */
  none(visit: Visit): Child;
  /** Returns what puts the table into a form that does something with selected rows, if the role may do it. */
  around?(visit: Visit): ((table: Child, list: Listed) => Child) | undefined;
  /** What stands beside the title. */
  beside?(visit: Visit): Child;
  /** Renders the rows of all pages for a download. */
  readonly csv?: (pages: AsyncIterable<readonly Row[]>) => AsyncGenerator<string, undefined>;
}

/** Returns the routes of a list: its page, and its download if it has one. */
export function listRoutes<Entries extends WithAfter, Row>(
  list: List<Entries, Row>,
): readonly [ConsoleRoute, ...ConsoleRoute[]] {
  const { path, scope } = list;
  const first = page(path, scope, (visit, c) => listPage(list, withChosenOrder(list, visit, c)));
  return list.csv === undefined
    ? [first]
    : [first, page(`${path}.csv`, scope, (visit) => listCsv(list, visit))];
}

const NO_PAGE: PageOfList<never> = { rows: [], isFirst: true, total: 0, skipped: 0 };

/** Shows the list, or why it cannot be downloaded, above the form in which its conditions can be changed. */
async function listPage<Entries extends WithAfter, Row>(
  list: List<Entries, Row>,
  visit: Visit,
  undownloadable?: Refusal,
): Promise<Page> {
  const { script, Fields, columns, noun, order, sumUp, noneMeets, csv } = list;
  const query = new URLSearchParams(visit.query);
  query.delete(DONE);
  const asked = readConditions(query, { ...list.entries, before: list.entries.after });
  const { values, entered } = asked;
  const found = isRefusal(values) ? values : await list.find(visit, values);
  const { warning, note } = isRefusal(found) ? { warning: found.sentence } : found;
  const page =
    isRefusal(found) || isRefusal(values) ? NO_PAGE : await readPage(found, values, positionIn(list));
  const { rows } = page;
  const path = `/console${list.path}`;
  const set = nameConditions(entered).map(([words, text]) => redactKeys(`${words} ${text}`));
  const isFiltered = set.length > 0;
  const isEmpty = rows.length === 0 && page.isFirst && !isFiltered;
  const sort = entered.sort ?? order;
  const named = `${renderPlace(noun, page)}, ${renderOrder(sort)}`;
  const toPath = (sort: string) => `${toAddress(path, { ...entered, sort })}#rows`;
  const around = list.around?.(visit);
  const skipTo = around ? "selection" : (page.first ?? page.last) && "pages";
  const caption = (
    <>
      <span id="rows" tabindex={-1}>
        {sumUp === undefined ? named : `${named}; ${sumUp(rows)}`}
      </span>
      {skipTo && (
        <a class="skip-link" href={`#${skipTo}`}>
          {`Skip to the ${around ? "selection and the pages" : "pages"}`}
        </a>
      )}
    </>
  );
  const shown = columns(visit);
  const table = <Table caption={caption} columns={shown} rows={rows} order={{ sort, toPath }} />;
  const unsorted = shown.flatMap(({ label, isOrdered, isControl, sorts = [] }) =>
    isOrdered || isControl || sorts.length > 0 ? [] : [label.toLowerCase()],
  );
  return {
    title: list.title,
    beside: list.beside?.(visit),
    ...(script && { script }),
    ...(isRefusal(values) && { code: values.code }),
    ...(undownloadable && { code: undownloadable.code }),
    body: (
      <>
        {Fields && (
          <details class="folded" open={isRefusal(values)}>
            <summary>
              Conditions
              {isFiltered && (
                <>
                  : <Foreign text={set.join(", ")} />
                </>
              )}
            </summary>
            <form
              class={list.hasManyFields ? "filters many" : "filters"}
              action={`${path}#rows`}
              aria-label="Conditions"
            >
              {Fields(asked)}
              <div class="actions">
                <button type="submit">Show</button>
                {isFiltered && <a href={path}>Show all</a>}
              </div>
            </form>
          </details>
        )}
        {warning && (
          <Notice kind="warning">
            <Foreign text={`${undownloadable?.sentence ?? warning}.`} />
          </Notice>
        )}
        {note}
        {rows.length > 0 ? (
          (around?.(table, { entered, total: page.total }) ?? table)
        ) : isRefusal(found) ? null : (
          <p class="empty" id="rows" tabindex={-1}>
            {isEmpty ? list.none(visit) : noneMeets} {!isEmpty && <a href={path}>{`Show all ${noun}s`}</a>}
          </p>
        )}
        <Pages path={path} conditions={entered} page={page} toAfter={list.toAfter}>
          {csv && rows.length > 0 && (
            <>
              <a href={toAddress(`${path}.csv`, entered)}>Download as CSV</a>
              <a href={toAddress(`${path}.csv`, { ...entered, bom: "1" })}>CSV for Excel</a>
            </>
          )}
        </Pages>
        {rows.length > 1 && unsorted.length > 0 && (
          <p class="hint unordered">{`This list cannot be ordered by ${unsorted.join(", ")}: with many ${noun}s that would take too long.`}</p>
        )}
      </>
    ),
  };
}

/** Returns the function that gives the position of a row as `find` reads it. */
function positionIn<Entries extends WithAfter, Row>({ entries, toAfter }: List<Entries, Row>) {
  return (row: Row) => v.parse(entries.after, toAfter(row)) ?? "";
}

/** Answers the rows of all pages as CSV, or the page of the list if it cannot. */
async function listCsv<Entries extends WithAfter, Row>(
  list: List<Entries, Row>,
  asked: Visit,
): Promise<Response | Refusal | Page> {
  const { path, entries, csv } = list;
  if (csv === undefined) throw new Error(`The list ${path} has no CSV`);
  const { conditions: query, hasMark } = splitMark(asked.query);
  const visit = { ...asked, query };
  const { values } = readConditions(query, entries);
  const found = isRefusal(values) ? values : await list.find(visit, values);
  if (isRefusal(found)) return await listPage(list, visit, found);
  if (found.warning !== undefined) {
    // A file does not show that some rows are missing.
    const why = `${found.warning}, then download the ${path.slice(1)}`;
    return await listPage(list, visit, refuse("INVALID_REQUEST", why));
  }
  const name = `${path.slice(1)}-${toDay(visit.now)}`;
  const parts = csv(readPages({ read: found.readAll ?? found.read, positionOf: positionIn(list) }));
  return await streamCsv({ name, parts, hasMark }, visit);
}
