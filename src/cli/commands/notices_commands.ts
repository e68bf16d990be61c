/** `claviger notices …`: what operators should know before a customer calls. */
import { toDay, toTimestamp } from "../../base/calendar.ts";
import { idRule, parseId, toId } from "../../base/ids.ts";
import { type Database, readPages } from "../../database/mod.ts";
import { ACCOUNT, findAccountOfList } from "../../licensing/mod.ts";
import {
  describeNotice,
  findNotice,
  findNoticeFilter,
  LOOKS_EVERY,
  listMuted,
  listNotices,
  markDone,
  mute,
  NOTICE_CONDITIONS,
  REMIND_DAY,
  remindLater,
  renderMuted,
  renderNotice,
  unmute,
} from "../../notices/mod.ts";
import { databaseCommand, group } from "../command.ts";
import {
  conditionOptions,
  conditionsOf,
  listOptions,
  printList,
  printRows,
  whileRead,
} from "../list_options.ts";
import { REASON } from "../options.ts";
import { option, required, type ValuesOf } from "../parameter.ts";
import { orRefuse } from "../run.ts";

const { limit, after } = listOptions("ntc");

const list = databaseCommand({
  name: "list",
  description: "list the notices that meet every condition, by default the open ones",
  options: { limit, after, ...conditionOptions(NOTICE_CONDITIONS) },
  async run(values, call) {
    const { database, now } = call;
    const filter = orRefuse(await findNoticeFilter(database, conditionsOf(NOTICE_CONDITIONS, values)));
    await printList(call, values, {
      read: (part) => listNotices(database, { now, filter: { ...filter, ...part } }),
      positionOf: ({ id }) => parseId("ntc", id) ?? "",
      toCells: (notice) => ({
        id: notice.id,
        state: notice.state,
        kind: notice.kind,
        since: notice.trueSince,
        says: describeNotice(notice),
      }),
      toJson: renderNotice,
    });
  },
});

const NOTICE_ID = { id: required("the notice's id", idRule("ntc")) };

const show = databaseCommand({
  name: "show",
  description: "show one notice",
  arguments: NOTICE_ID,
  async run({ id }, { database, now, print }) {
    print.fields(renderNotice(orRefuse(await findNotice(database, id, { now, what: "show notice" }))));
  },
});

const done = databaseCommand({
  name: "done",
  description: "mark a notice as done: it is not among the open ones any more",
  arguments: NOTICE_ID,
  options: REASON,
  async run({ id: uuid }, { database, actor, now, print }) {
    const { isChanged } = orRefuse(await markDone(database, uuid, { actor, now }));
    const id = toId("ntc", uuid);
    print.line(isChanged ? `Marked ${id} as done` : `Nothing changed: ${id} was done already`, {
      ...{ id, state: "done" },
      changed: isChanged,
    });
  },
});

const remind = databaseCommand({
  name: "remind",
  description: "put a notice off: it is among the open ones again from a day on",
  arguments: NOTICE_ID,
  options: { on: required("the day, from its beginning on, UTC", REMIND_DAY, { as: "day" }), ...REASON },
  async run({ id: uuid, on: remindAt }, { database, actor, now, print }) {
    const { isChanged } = orRefuse(await remindLater(database, uuid, { remindAt, actor, now }));
    const id = toId("ntc", uuid);
    print.line(
      isChanged
        ? `Put ${id} off until ${toDay(remindAt)}`
        : `Nothing changed: ${id} was put off until then already`,
      {
        ...{ id, state: "later", remind_at: toTimestamp(remindAt) },
        changed: isChanged,
      },
    );
  },
});

const ONE_OF = {
  account: option("the account, by its id or e-mail", ACCOUNT, { as: "account" }),
  license: option("the license, by its id", idRule("lic"), { as: "id" }),
};

/** Exactly one of the options must be given. */
const needOne = ({ account, license }: ValuesOf<typeof ONE_OF>) =>
  (account === undefined) === (license === undefined) ? "give either --account or --license" : undefined;

/** Finds what the options name, and how a line names it. */
async function findMutable(database: Database, { account, license }: ValuesOf<typeof ONE_OF>) {
  if (license !== undefined) return { of: { licenseUuid: license }, id: toId("lic", license) };
  const accountUuid = orRefuse(await findAccountOfList(database, account, "mute notices")) ?? "";
  return { of: { accountUuid }, id: toId("usr", accountUuid) };
}

const muteOne = databaseCommand({
  name: "mute",
  description: "make no notices for an account or a license, and withdraw its open ones",
  options: { ...ONE_OF, ...REASON },
  check: needOne,
  async run(values, { database, actor, now, print }) {
    const { of, id } = await findMutable(database, values);
    const { isChanged } = orRefuse(await mute(database, of, { actor, now }));
    const done = `Muted ${id}: no notice is made for it, and a running service withdraws its open ones within ${LOOKS_EVERY}`;
    print.line(isChanged ? done : `Nothing changed: ${id} was muted already`, {
      id,
      muted: true,
      changed: isChanged,
    });
  },
});

const unmuteOne = databaseCommand({
  name: "unmute",
  description: "make notices for an account or a license again",
  options: { ...ONE_OF, ...REASON },
  check: needOne,
  async run(values, { database, actor, now, print }) {
    const { of, id } = await findMutable(database, values);
    const { isChanged } = orRefuse(await unmute(database, of, { actor, now }));
    const done = `Unmuted ${id}: a running service makes its notices within ${LOOKS_EVERY}`;
    print.line(isChanged ? done : `Nothing changed: ${id} was not muted`, {
      id,
      muted: false,
      changed: isChanged,
    });
  },
});

const muted = databaseCommand({
  name: "muted",
  description: "list the accounts and licenses that are muted",
  options: { limit },
  async run({ limit }, call) {
    const pages = readPages({
      read: (afterUuid, most) => listMuted(call.database, { afterUuid, limit: most }),
      positionOf: ({ id }) => id,
      most: limit + 1,
    });
    await printRows(call.print, whileRead(pages, call), {
      limit,
      toCells: ({ licenseId, email, mutedAt, mutedBy }) => ({
        email,
        license: licenseId ?? "all",
        "muted at": mutedAt,
        by: mutedBy,
      }),
      toJson: renderMuted,
    });
  },
});

export const notices = group("notices", "list what needs attention, and mark it as done", [
  list,
  show,
  done,
  remind,
  muteOne,
  unmuteOne,
  muted,
]);
