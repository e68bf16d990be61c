/** @jsxImportSource hono/jsx */
/** The list of notices, and what other pages show of one. */
import * as v from "valibot";
import { ORDERS } from "../../base/condition.ts";
import { idRule } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { parsedField } from "../../base/rule.ts";
import { escapeControls } from "../../base/text/mod.ts";
import {
  countNotices,
  findNoticeFilter,
  isOpenNotice,
  KIND_MEANINGS,
  LOOKS_EVERY,
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
import { Notice } from "../frame/console/components/layout.tsx";
import { bothWays, OrderField, toAddress } from "../frame/console/components/list.tsx";
import type { Column } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Pill } from "../frame/console/components/values.tsx";
import { type Asked, fieldOf } from "../frame/console/conditions.ts";
import type { List } from "../frame/console/list_page.tsx";
import { ORIGIN, toOpenForm } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";
import { DONE_STAYS, describeLastNoticeChange, NoticeLink } from "./done_notice.tsx";

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
  async find(visit, conditions) {
    const { options, now } = visit;
    const { database } = options;
    const filter = await findNoticeFilter(database, { sort: "newest", ...conditions });
    if (isRefusal(filter)) return filter;
    return {
      ...bothWays(filter, {
        list: (filter) => listNotices(database, { now, filter }),
        count: (filter) => countNotices(database, { now, filter }),
      }),
      note: (
        <>
          <Notice kind="done">{await describeLastNoticeChange(visit)}</Notice>
          {visit.may("notices:change") && <p class="hint">{DONE_STAYS}</p>}
        </>
      ),
    };
  },
  toAfter: ({ id }) => id,
  Fields,
  columns: (visit) => [
    ...columnsFor(visit, { from: originIn(visit), sorts: ["newest", "oldest"] }),
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

const toList = (kind?: string) => toAddress(NOTICES.path, { kind });

/** The addresses of the pages on which a notice can be marked as done or put off, and to which that leads back. */
export const ORIGINS: readonly string[] = ["/overview", ...[undefined, ...NOTICE_KINDS].map(toList)];

/** Returns the address of the list that is shown, of whose conditions only the kind is kept. */
function originIn({ query }: Visit): string {
  const address = toList(query.get("kind") ?? undefined);
  return ORIGINS.includes(address) ? address : toList();
}

interface Place extends Pick<Column<NoticeSummary>, "sorts"> {
  /** One of {@linkcode ORIGINS}. */
  readonly from: string;
}

/** The columns of notices: the sentence, whom it is about, when it was made, and what to do with it. */
export function columnsFor(
  { now, may }: Visit,
  { from, sorts = [] }: Place,
): readonly Column<NoticeSummary>[] {
  return [
    { label: "Notice", cell: (notice) => <NoticeLink of={notice} /> },
    // The sentence has the e-mail, too.
    { label: "Account", needs: "wide", cell: AccountOf },
    { label: "Noticed", sorts, cell: ({ madeAt }) => <Ago at={madeAt} now={now} /> },
    ...(may("notices:change")
      ? [
          {
            label: "Actions",
            isControl: true as const,
            cell: (notice: NoticeSummary) => <NoticeActions of={notice} from={from} />,
          },
        ]
      : []),
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
function NoticeActions({ of, from }: { readonly of: NoticeSummary; readonly from: string }) {
  if (!isOpenNotice(of)) return null;
  const page = `/notices/${of.id}`;
  const says = escapeControls(tellNotice(of));
  return (
    <form method="post" action={`/console${page}/done`}>
      <input type="hidden" name={ORIGIN} value={from} />
      <button type="submit" class="quiet" aria-label={`Done: ${says}`}>
        Done
      </button>{" "}
      <a href={`/console${toOpenForm(page, "remind", from)}`} aria-label={`Put off… ${says}`}>
        Put off…
      </a>
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
export const NO_OPEN_NOTICE = `No notice is open. The service looks every ${LOOKS_EVERY}, first a minute after its start.`;

/** Names a kind of notice in words: `license_end` is `license end`. */
export function nameOfKind(kind: string): string {
  return kind.replaceAll("_", " ");
}

/** Says what a kind of notice tells. */
export function describeKind({ kind }: NoticeSummary): string {
  return `${kind}: ${KIND_MEANINGS[kind] ?? "a kind that this version does not know"}`;
}
