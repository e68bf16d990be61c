/** @jsxImportSource hono/jsx */
/** The panel of Overview: the newest open notices, and how many are open of each kind. */
import { renderCount } from "../../base/render_count.ts";
import {
  countOpenNotices,
  listNotices,
  NOTICE_KINDS,
  type NoticeKind,
  type NoticeSummary,
} from "../../notices/mod.ts";
import { Table } from "../frame/console/components/table.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { DONE_STAYS } from "./done_notice.tsx";
import { columnsFor, NO_OPEN_NOTICE, nameOfKind } from "./notices.tsx";

/** The notices that the panel shows. */
const ROWS = 10;
/** The notices of a kind are counted up to this number, so that many cost Overview little. */
const MOST_OF_KIND = 1_000;

/** The newest open notices, and how many there are of each kind. */
interface OpenNotices {
  readonly newest: readonly NoticeSummary[];
  readonly counts: Readonly<Record<NoticeKind, number>>;
}

/** Reads what the panel shows. */
export async function readOpenNotices({ options: { database }, now }: Visit): Promise<OpenNotices> {
  const [newest, counts] = await Promise.all([
    listNotices(database, { now, filter: { state: "open", newestFirst: true, limit: ROWS } }),
    countOpenNotices(database, now, { most: MOST_OF_KIND }),
  ]);
  return { newest, counts };
}

export function OpenNoticesPanel({ newest, counts, visit }: OpenNotices & { readonly visit: Visit }) {
  const kinds = NOTICE_KINDS.filter((kind) => counts[kind] > 0);
  return (
    <section class="panel" aria-labelledby="notices">
      <h2 id="notices">Open notices</h2>
      {kinds.length > 0 && (
        <p class="ways">
          {"All open ones: "}
          {kinds.map((kind) => (
            <a href={`/console/notices?kind=${kind}`}>
              {`${renderCount(counts[kind], { most: MOST_OF_KIND })} ${nameOfKind(kind)}`}
            </a>
          ))}
        </p>
      )}
      {newest.length > 0 && visit.may("notices:change") && <p class="hint">{DONE_STAYS}</p>}
      <Table
        caption={newest.length < ROWS ? "Newest first" : `The ${ROWS} newest`}
        columns={columnsFor(visit, { from: "/overview" })}
        rows={newest}
        none={<p>{NO_OPEN_NOTICE}</p>}
      />
      {kinds.length > 0 && (
        <p class="ways">
          <a href="/console/notices">Show all open notices</a>
        </p>
      )}
    </section>
  );
}
