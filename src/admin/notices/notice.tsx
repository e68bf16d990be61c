/** @jsxImportSource hono/jsx */
/** The page of a notice: what it says, and how it leaves the open ones. */
import { describeActor } from "../../audit/mod.ts";
import { DAY_MS, toDay, toTimestamp } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { parsedField, wordField } from "../../base/rule.ts";
import {
  describeNotice,
  findNotice,
  listMuted,
  type Muted,
  markDone,
  mute,
  type NoticeSummary,
  REMIND_DAY,
  remindLater,
  STATE_MEANINGS,
  WITHDRAWN_WORDS,
} from "../../notices/mod.ts";
import { noticeFor } from "../frame/api/path_ids.ts";
import { type Action, action } from "../frame/console/action.ts";
import { optionsOf, Select, TextField } from "../frame/console/components/form.tsx";
import { Id } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Foreign, KeyLink, LicenseLink } from "../frame/console/components/values.tsx";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { MutedNote } from "./muted.tsx";
import { describeKind, NoticeStatePill } from "./notices.tsx";

const isOpen = ({ state }: NoticeSummary) => state === "open" || state === "later";

const done: Action<NoticeSummary> = action({
  name: "done",
  scope: "notices:change",
  label: "Done",
  submit: "Mark as done",
  fits: isOpen,
  isDone: ({ state }) => state === "done",
  Form: () => (
    <p>
      The notice is not among the open ones any more. A nearer notice of the same occasion, such as fewer days
      before the same end, is still made.
    </p>
  ),
  perform: ({ of, by, visit }) => markDone(visit.options.database, parseId("ntc", of.id) ?? "", by),
  done: { "notice.done": "The notice is done: it is not among the open ones any more." },
});

const REMIND_ENTRIES = { on: parsedField(REMIND_DAY) } as const;

const remind = action<NoticeSummary, typeof REMIND_ENTRIES>({
  name: "remind",
  scope: "notices:change",
  label: "Remind on",
  submit: "Put the notice off",
  fits: isOpen,
  entries: REMIND_ENTRIES,
  Form: ({ field, now }) => (
    <>
      <p>The notice is not among the open ones until that day, and then it is there again.</p>
      <TextField
        {...field("on")}
        label="Day"
        hint={`Such as ${toDay(new Date(now.getTime() + 7 * DAY_MS))}; from its beginning on, UTC`}
        required
      />
    </>
  ),
  perform: ({ of, by, fields, visit }) =>
    remindLater(visit.options.database, parseId("ntc", of.id) ?? "", { ...by, remindAt: fields.on }),
  done: {
    "notice.remind": (_, after) =>
      `The notice is put off: it is among the open ones again from ${toTimestamp(new Date(Object(after).remind_at))} on.`,
  },
});

const OF = ["license", "account"] as const;
const MUTE_ENTRIES = { of: wordField(OF) } as const;

/** A notice, and what is muted of its license and its account. */
interface ShownNotice extends NoticeSummary {
  readonly muted: readonly Muted[];
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

const muteAction = action<ShownNotice, typeof MUTE_ENTRIES>({
  name: "mute",
  scope: "notices:change",
  label: "Mute",
  submit: "Make no notices for it",
  fits: (notice) => mutableOf(notice).length > 0,
  entries: MUTE_ENTRIES,
  Form: ({ of, field }) => (
    <>
      <p>
        From now on no notice is made for this license, or for all licenses of the account. The open ones are
        withdrawn within ten minutes.
      </p>
      <Select {...field("of")} label="Of" choices={optionsOf(mutableOf(of))} required />
    </>
  ),
  perform({ of, by, fields, visit }) {
    const { licenseUuid, accountUuid } = uuidsOf(of);
    const muted = fields.of === "license" ? { licenseUuid } : { accountUuid };
    return mute(visit.options.database, muted, { ...by, notice: of.id });
  },
  done: {
    "notice.mute":
      "It is muted: no notice is made for it, and the open ones are withdrawn within ten minutes.",
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
    const muted = notice.licenseId === null ? [] : await listMuted(database, { about: uuidsOf(notice) });
    return { ...notice, muted };
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
          ["State", `${state}: ${STATE_MEANINGS[state]}`],
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
