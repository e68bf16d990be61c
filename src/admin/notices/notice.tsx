/** @jsxImportSource hono/jsx */
/** The page of a notice: what it says, and how it leaves the open ones. */
import type { Child } from "hono/jsx";
import { describeActor } from "../../audit/mod.ts";
import { DAY_MS, toDay } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import { parsedField, wordField } from "../../base/rule.ts";
import { type Database, MOST_COUNTED } from "../../database/mod.ts";
import {
  countNotices,
  describeNotice,
  findNotice,
  isOpenNotice,
  LOOKS_EVERY,
  listMuted,
  type Muted,
  markDone,
  mute,
  type NoticeFilter,
  type NoticeState,
  type NoticeSummary,
  REMIND_DAY,
  remindLater,
  STATE_MEANINGS,
  WITHDRAWN_WORDS,
} from "../../notices/mod.ts";
import { noticeFor } from "../frame/api/path_ids.ts";
import { type Action, action } from "../frame/console/action.ts";
import { RadioButtons, TextField } from "../frame/console/components/form.tsx";
import { Id } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Foreign, KeyLink, LicenseLink } from "../frame/console/components/values.tsx";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { describeStay, sayDone, sayMuted, sayPutOff } from "./done_notice.tsx";
import { MutedNote } from "./muted.tsx";
import { describeKind, NoticeStatePill, ORIGINS } from "./notices.tsx";

const done: Action<NoticeSummary> = action({
  name: "done",
  scope: "notices:change",
  label: "Done",
  submit: "Mark as done",
  fits: isOpenNotice,
  isDone: ({ state }) => state === "done",
  Form: ({ of }) => <p>{`The notice is not among the open ones any more. ${describeStay(of)}`}</p>,
  originsOf: () => ORIGINS,
  perform: ({ of, by, visit }) => markDone(visit.options.database, parseId("ntc", of.id) ?? "", by),
  done: { "notice.done": sayDone },
});

const REMIND_ENTRIES = { on: parsedField(REMIND_DAY) } as const;

const remind = action<NoticeSummary, typeof REMIND_ENTRIES>({
  name: "remind",
  scope: "notices:change",
  label: "Put off",
  submit: "Put the notice off",
  fits: isOpenNotice,
  entries: REMIND_ENTRIES,
  Form: ({ field, now }) => (
    <>
      <p>
        The notice is not among the open ones until that day. From that day on it is open again, if it is
        still true.
      </p>
      <TextField
        {...field("on", toDay(new Date(now.getTime() + 7 * DAY_MS)))}
        label="Day"
        hint="A week ahead, unless you write another one; from its beginning on, UTC"
        required
      />
    </>
  ),
  perform: ({ of, by, fields, visit }) =>
    remindLater(visit.options.database, parseId("ntc", of.id) ?? "", { ...by, remindAt: fields.on }),
  originsOf: () => ORIGINS,
  done: { "notice.remind": sayPutOff },
});

const OF = ["license", "account"] as const;
const MUTE_ENTRIES = { of: wordField(OF) } as const;

/** A notice, what is muted of its license and its account, and how many notices of each are open or put off. */
interface ShownNotice extends NoticeSummary {
  readonly muted: readonly Muted[];
  readonly open: Readonly<Record<(typeof OF)[number], number>>;
}

const uuidsOf = ({ licenseId, userId }: NoticeSummary) => ({
  licenseUuid: parseId("lic", licenseId ?? "") ?? "",
  accountUuid: parseId("usr", userId ?? "") ?? "",
});

/** Returns what can be muted: nothing more if the whole account is. */
function mutableOf({ licenseId, muted }: ShownNotice): readonly (typeof OF)[number][] {
  if (licenseId === null || muted.some((each) => each.licenseId === null)) return [];
  return muted.length === 0 ? OF : ["account"];
}

/** Names what can be muted, as people know it. */
function nameOf(of: (typeof OF)[number], { email, key, licenseId }: ShownNotice): Child {
  const whose = <Foreign text={email ?? ""} />;
  return of === "account" ? (
    <>all licenses of {whose}</>
  ) : (
    <>
      the license of {whose} with the key {key ?? licenseId}
    </>
  );
}

async function countOpen(
  database: Database,
  { licenseUuid, accountUuid }: ReturnType<typeof uuidsOf>,
  now: Date,
) {
  const count = async (filter: NoticeFilter) => {
    const counts = (["open", "later"] satisfies NoticeState[]).map((state) =>
      countNotices(database, { now, filter: { ...filter, state } }),
    );
    return (await Promise.all(counts)).reduce((sum, each) => sum + each, 0);
  };
  const [license, account] = await Promise.all([count({ licenseUuid }), count({ accountUuid })]);
  return { license, account };
}

const muteAction = action<ShownNotice, typeof MUTE_ENTRIES>({
  name: "mute",
  scope: "notices:change",
  label: "Mute",
  submit: "Make no notices for it",
  fits: (notice) => mutableOf(notice).length > 0,
  entries: MUTE_ENTRIES,
  Form({ of, field }) {
    const mutable = mutableOf(of);
    const choices = mutable.map((value) => ({
      value,
      label: (
        <>
          {nameOf(value, of)} ({counted(of.open[value], "open notice", { most: MOST_COUNTED })})
        </>
      ),
    }));
    return (
      <>
        <p>
          From now on no notice is made for what you choose, and its open ones, also those that were put off,
          are withdrawn within {LOOKS_EVERY}. To end it, choose Unmute on this page or on the page{" "}
          <a href="/console/notices/muted">Muted</a>.
        </p>
        <RadioButtons
          {...field("of", mutable.length === 1 ? mutable[0] : undefined)}
          label="Mute"
          choices={choices}
        />
      </>
    );
  },
  perform({ of, by, fields, visit }) {
    const { licenseUuid, accountUuid } = uuidsOf(of);
    const muted = fields.of === "license" ? { licenseUuid } : { accountUuid };
    return mute(visit.options.database, muted, { ...by, notice: of.id });
  },
  done: {
    "notice.mute"(notice) {
      if (notice.muted.length === 0) return null;
      const of = notice.muted.some(({ licenseId }) => licenseId === null) ? "account" : "license";
      return sayMuted({ what: nameOf(of, notice), open: notice.open[of] });
    },
  },
});

export const NOTICE_PAGE: DetailPage<ShownNotice> = {
  path: "/notices/:id",
  scope: "notices:read",
  addressOf: ({ id }) => `/notices/${id}`,
  actions: [done, remind, muteAction],
  async find({ options: { database }, params, now }) {
    const named = noticeFor("show notice").read(params);
    if (isRefusal(named)) return named;
    const notice = await findNotice(database, named.uuid, { now, what: named.what });
    if (isRefusal(notice)) return notice;
    if (notice.licenseId === null) return { ...notice, muted: [], open: { license: 0, account: 0 } };
    const about = uuidsOf(notice);
    const [muted, open] = await Promise.all([
      listMuted(database, { about }),
      countOpen(database, about, now),
    ]);
    return { ...notice, muted, open };
  },
  show: showNotice,
};

function showNotice(notice: ShownNotice, visit: Visit): Detail {
  const { now } = visit;
  const { id, state, userId, email, licenseId, keyId, key, trueSince, madeAt, remindAt, closedAt } = notice;
  const { closedBy, withdrawnFor } = notice;
  return {
    title: `Notice …${id.slice(-6)}`,
    beside: <NoticeStatePill state={state} />,
    above: (
      <>
        <p>
          <b>
            <Foreign text={`${describeNotice(notice)}.`} />
          </b>
        </p>
        <MutedNote muted={notice.muted} visit={visit} />
      </>
    ),
    below: (
      <Facts
        facts={[
          [
            "State",
            `${state}: ${STATE_MEANINGS[state]}${state === "done" ? `. ${describeStay(notice)}` : ""}`,
          ],
          ["Kind", describeKind(notice)],
          ["Notice id", <Id id={id} />],
          userId !== null && email !== null && ["Account", <AccountLink id={userId} email={email} />],
          licenseId !== null && ["License", <LicenseLink id={licenseId} />],
          keyId !== null && ["Key", <KeyLink id={keyId} text={key ?? keyId} />],
          ["True since", <Ago at={trueSince} now={now} />],
          ["Noticed", <Ago at={madeAt} now={now} />],
          remindAt !== null && ["Put off until", <Ago at={remindAt} now={now} />],
          closedAt !== null && ["Not open since", <Ago at={closedAt} now={now} />],
          closedBy !== null && ["By", <Foreign text={describeActor(closedBy)} />],
          withdrawnFor !== null && ["Withdrawn because", WITHDRAWN_WORDS[withdrawnFor] ?? withdrawnFor],
        ]}
      />
    ),
  };
}
