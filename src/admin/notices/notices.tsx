/** @jsxImportSource hono/jsx */
/** The list of notices, and what other pages show of one. */
import * as v from "valibot";
import { ORDERS } from "../../base/condition.ts";
import { idRule } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { parsedField } from "../../base/rule.ts";
import {
  countNotices,
  findNoticeFilter,
  KIND_MEANINGS,
  listNotices,
  NOTICE_CONDITIONS,
  NOTICE_KINDS,
  NOTICE_STATES,
  type NoticeState,
  type NoticeSummary,
  tellNotice,
} from "../../notices/mod.ts";
import { conditionFields } from "../frame/api/fields.ts";
import { choicesOf, optionsOf, Select, TextField } from "../frame/console/components/form.tsx";
import { bothWays, OrderField } from "../frame/console/components/list.tsx";
import type { Column } from "../frame/console/components/table.tsx";
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
  none: () => NO_OPEN_NOTICE,
  beside: () => <a href="/console/notices/muted">Show what is muted</a>,
};

function Fields(asked: Asked<typeof ENTRIES>) {
  const field = (name: keyof typeof ENTRIES) => fieldOf(asked, name);
  const [open, ...others] = [...NOTICE_STATES, "all"];
  return (
    <>
      <Select {...field("kind")} label="Kind" choices={choicesOf(NOTICE_KINDS, nameOfKind)} />
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
export function columnsFor(
  { now, may }: Visit,
  sorts: Column<NoticeSummary>["sorts"] = [],
): readonly Column<NoticeSummary>[] {
  return [
    {
      label: "Notice",
      cell: (notice) => (
        <a href={`/console/notices/${notice.id}`}>
          <Foreign text={tellNotice(notice)} />
        </a>
      ),
    },
    // The sentence has the e-mail, too.
    { label: "Account", needs: "wide", cell: AccountOf },
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

/** Says that no notice is open, also before the service has looked for the first time. */
export const NO_OPEN_NOTICE =
  "No notice is open. The service looks every ten minutes, first a minute after its start.";

/** Names a kind of notice in words: `license_end` is `license end`. */
export function nameOfKind(kind: string): string {
  return kind.replaceAll("_", " ");
}

/** Says what a kind of notice tells. */
export function describeKind({ kind }: NoticeSummary): string {
  return `${kind}: ${KIND_MEANINGS[kind] ?? "a kind that this version does not know"}`;
}
