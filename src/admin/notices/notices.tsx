/** @jsxImportSource hono/jsx */
/** The list of notices, and the panel of the newest open ones. */
import * as v from "valibot";
import { ORDERS } from "../../base/condition.ts";
import { idRule } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { parsedField } from "../../base/rule.ts";
import {
  countNotices,
  describeNotice,
  findNoticeFilter,
  KIND_MEANINGS,
  listNotices,
  NOTICE_CONDITIONS,
  NOTICE_KINDS,
  NOTICE_STATES,
  type NoticeState,
  type NoticeSummary,
} from "../../notices/mod.ts";
import { conditionFields } from "../frame/api/fields.ts";
import { choicesOf, optionsOf, Select, TextField } from "../frame/console/components/form.tsx";
import { bothWays, OrderField } from "../frame/console/components/list.tsx";
import { type Column, Table } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Foreign, Pill } from "../frame/console/components/values.tsx";
import { type Asked, fieldOf } from "../frame/console/conditions.ts";
import type { List } from "../frame/console/list_page.tsx";
import { toOpenForm } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";

const ENTRIES = {
  ...conditionFields(NOTICE_CONDITIONS),
  after: v.optional(parsedField(idRule("ntc"))),
} as const;

/** The list of notices. */
export const NOTICES: List<typeof ENTRIES, NoticeSummary> = {
  title: "Notices",
  path: "/notices",
  scope: "notices:read",
  entries: ENTRIES,
  async find({ options: { database }, now }, conditions) {
    const filter = await findNoticeFilter(database, { sort: "newest", ...conditions });
    if (isRefusal(filter)) return filter;
    return bothWays(filter, {
      list: (filter) => listNotices(database, { now, filter }),
      count: (filter) => countNotices(database, { now, filter }),
    });
  },
  toAfter: ({ id }) => id,
  Fields,
  columns: (visit) => [
    ...columnsFor(visit, ["newest", "oldest"]),
    { label: "State", cell: ({ state }) => <NoticeStatePill state={state} /> },
  ],
  order: "newest",
  noun: "notice",
  noneMeets: "No notice meets these conditions.",
  none: () => "No notice is open: nothing needs attention.",
};

function Fields(asked: Asked<typeof ENTRIES>) {
  const field = (name: keyof typeof ENTRIES) => fieldOf(asked, name);
  const [open, ...others] = [...NOTICE_STATES, "all"];
  return (
    <>
      <Select
        {...field("kind")}
        label="Kind"
        choices={choicesOf(NOTICE_KINDS, (kind) => kind.replaceAll("_", " "))}
      />
      <Select
        {...field("state")}
        label="State"
        choices={[{ value: "", label: open ?? "" }, ...optionsOf(others)]}
      />
      <TextField {...field("account")} label="Account" hint="Its id or e-mail" />
      <TextField {...field("license")} label="License" hint="Its id" />
      <OrderField {...field("sort")} orders={ORDERS} />
    </>
  );
}

/** The columns of notices: the sentence, whom it is about, since when, and what to do with it. */
function columnsFor(
  { now, may }: Visit,
  sorts: Column<NoticeSummary>["sorts"] = [],
): readonly Column<NoticeSummary>[] {
  return [
    {
      label: "Notice",
      cell: (notice) => (
        <a href={`/console/notices/${notice.id}`}>
          <Foreign text={describeNotice(notice)} />
        </a>
      ),
    },
    { label: "Account", cell: AccountOf },
    { label: "Since", sorts, cell: ({ trueSince }) => <Ago at={trueSince} now={now} /> },
    ...(may("notices:change") ? [{ label: "Then", cell: Deeds }] : []),
  ];
}

function AccountOf({ userId, email }: NoticeSummary) {
  return userId === null || email === null ? (
    <span class="muted">this installation</span>
  ) : (
    <AccountLink id={userId} email={email} />
  );
}

/** The button and the link with which an open notice leaves the list. */
function Deeds({ id, state }: NoticeSummary) {
  if (state !== "open" && state !== "later") return "";
  const page = `/notices/${id}`;
  return (
    <form method="post" action={`/console${page}/done`}>
      <button type="submit" class="quiet">
        Done
      </button>{" "}
      <a href={`/console${toOpenForm(page, "remind")}`}>Remind on…</a>
    </form>
  );
}

/** The state of a notice as a colored word. */
export function NoticeStatePill({ state }: { readonly state: NoticeState }) {
  const tones = {
    open: "warning",
    later: "expired",
    done: "good",
    withdrawn: "expired",
    replaced: "expired",
  } as const;
  return <Pill tone={tones[state]}>{state}</Pill>;
}

/** Says what a kind of notice tells. */
export function describeKind({ kind }: NoticeSummary): string {
  return `${kind}: ${KIND_MEANINGS[kind] ?? "a kind that this version does not know"}`;
}

/** The notices that a panel shows. */
const PANEL_ROWS = 10;

/** Reads the newest open notices; undefined if the operator may not see notices. */
export async function readOpenNotices({ options: { database }, now, may }: Visit) {
  if (!may("notices:read")) return undefined;
  const filter = { state: "open", newestFirst: true, limit: PANEL_ROWS + 1 } as const;
  return await listNotices(database, { now, filter });
}

/** The newest open notices; nothing if there are none. */
export function NoticesPanel({
  notices,
  visit,
}: {
  readonly notices: readonly NoticeSummary[] | undefined;
  readonly visit: Visit;
}) {
  if (notices === undefined || notices.length === 0) return null;
  const isPart = notices.length > PANEL_ROWS;
  return (
    <section class="panel" aria-labelledby="notices">
      <h2 id="notices">Needs attention</h2>
      <Table
        caption={isPart ? `The ${PANEL_ROWS} newest notices` : "Newest first"}
        columns={columnsFor(visit)}
        rows={notices.slice(0, PANEL_ROWS)}
      />
      <p>
        <a href="/console/notices">Show all notices</a>
      </p>
    </section>
  );
}
