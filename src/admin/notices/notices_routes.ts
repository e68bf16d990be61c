/** Notices: list, look at, mark as done, put off, and mute. */
import * as v from "valibot";
import { schemasOf } from "../../base/answer_fields.ts";
import { idRule, parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { inJsonSchema, parsedField } from "../../base/rule.ts";
import {
  findNotice,
  findNoticeFilter,
  LOOKS_EVERY,
  listMuted,
  listNotices,
  MUTED_FIELDS,
  markDone,
  mute,
  NOTICE_CONDITIONS,
  NOTICE_FIELDS,
  REMIND_DAY,
  remindLater,
  renderMuted,
  renderNotice,
  unmute,
} from "../../notices/mod.ts";
import { conditionFields, REASON } from "../frame/api/fields.ts";
import { findPage, PAGE_FIELDS, pageOf } from "../frame/api/page.ts";
import { noticeFor } from "../frame/api/path_ids.ts";
import { type Call, route, titled } from "../frame/api/route.ts";
import type { AdminOptions } from "../frame/options.ts";

const NOTICE = titled("Notice", schemasOf(NOTICE_FIELDS));

/** Returns the notice as it is after a change. */
async function answerChanged(
  { database }: AdminOptions,
  { uuid, what, now }: Call & { readonly uuid: string; readonly what: string },
  changed: { readonly isChanged: boolean } | Refusal,
) {
  if (isRefusal(changed)) return changed;
  const notice = await findNotice(database, uuid, { now, what });
  return isRefusal(notice) ? notice : { ...renderNotice(notice), changed: changed.isChanged };
}

const CHANGED_NOTICE = titled("ChangedNotice", { ...schemasOf(NOTICE_FIELDS), changed: v.boolean() });

/** The body names an account or a license. */
const ONE_OF = v.pipe(
  v.strictObject({
    account_id: v.optional(parsedField(idRule("usr"))),
    license_id: v.optional(parsedField(idRule("lic"))),
    ...REASON,
  }),
  v.check(
    ({ account_id, license_id }) => (account_id === undefined) !== (license_id === undefined),
    "give either account_id or license_id",
  ),
  inJsonSchema({ oneOf: [{ required: ["account_id"] }, { required: ["license_id"] }] }),
);

interface MuteRoute {
  readonly id: string;
  readonly summary: string;
  readonly description: string;
  readonly run: typeof mute;
}

function muteRoute(verb: "mute" | "unmute", { run, ...about }: MuteRoute) {
  return route(`POST /notices/${verb}`, "notices:change", {
    ...about,
    body: ONE_OF,
    success: {
      schema: titled(verb === "mute" ? "MutedNotices" : "UnmutedNotices", {
        muted: v.boolean(),
        changed: v.boolean(),
      }),
      description: `Notices are ${verb}d; \`changed\` is false if they were before`,
    },
    codes: ["NOT_FOUND"],
    async run({ database }, call) {
      const { account_id: accountUuid, license_id: licenseUuid = "" } = call.body;
      const of = accountUuid === undefined ? { licenseUuid } : { accountUuid };
      const changed = await run(database, of, call);
      return isRefusal(changed) ? changed : { muted: verb === "mute", changed: changed.isChanged };
    },
  });
}

export const NOTICES_ROUTES = [
  route("GET /notices", "notices:read", {
    id: "listNotices",
    summary: "List the notices that meet every condition, by default the open ones, the oldest first",
    description: "A notice that is open again keeps its place: to miss none, follow the audit log.",
    query: v.strictObject({ ...conditionFields(NOTICE_CONDITIONS), ...PAGE_FIELDS }),
    success: { schema: pageOf(NOTICE), description: "A page of notices" },
    codes: ["NOT_FOUND"],
    run: ({ database }, { query, now }) =>
      findPage({
        list: "notices",
        query,
        now,
        async find({ position, limit }, conditions) {
          const filter = await findNoticeFilter(database, conditions);
          if (isRefusal(filter)) return filter;
          return await listNotices(database, { now, filter: { ...filter, afterUuid: position, limit } });
        },
        positionOf: ({ id }) => parseId("ntc", id) ?? "",
        render: renderNotice,
      }),
  }),

  route("GET /notices/muted", "notices:read", {
    id: "listMuted",
    summary: "List the accounts and licenses for which no notices are made",
    query: v.strictObject(PAGE_FIELDS),
    success: { schema: pageOf(titled("Muted", schemasOf(MUTED_FIELDS))), description: "A page of them" },
    run: ({ database }, { query, now }) =>
      findPage({
        list: "muted",
        query,
        now,
        find: ({ position, limit }) => listMuted(database, { afterUuid: position, limit }),
        positionOf: ({ id }) => id,
        render: renderMuted,
      }),
  }),

  muteRoute("mute", {
    id: "muteNotices",
    summary: "Make no notices for an account or a license, and withdraw its open ones",
    description: `A running service withdraws them within ${LOOKS_EVERY}.`,
    run: mute,
  }),

  muteRoute("unmute", {
    id: "unmuteNotices",
    summary: "Make notices for an account or a license again",
    description: `A running service makes those that are true within ${LOOKS_EVERY}.`,
    run: unmute,
  }),

  route("GET /notices/:id", "notices:read", {
    id: "getNotice",
    summary: "Show a notice",
    path: noticeFor("show notice"),
    success: { schema: NOTICE, description: "The notice" },
    async run({ database }, { uuid, what, now }) {
      const notice = await findNotice(database, uuid, { now, what });
      return isRefusal(notice) ? notice : renderNotice(notice);
    },
  }),

  route("POST /notices/:id/done", "notices:change", {
    id: "markNoticeDone",
    summary: "Mark a notice as done: it is not among the open ones any more",
    path: noticeFor("mark notice as done"),
    body: v.strictObject(REASON),
    success: {
      schema: CHANGED_NOTICE,
      description: "The notice is done; `changed` is false if it was before",
    },
    codes: ["CONFLICT"],
    run: async (options, call) =>
      await answerChanged(options, call, await markDone(options.database, call.uuid, call)),
  }),

  route("POST /notices/:id/remind", "notices:change", {
    id: "putNoticeOff",
    summary: "Put a notice off: it is among the open ones again from a day on",
    path: noticeFor("put off notice"),
    body: v.strictObject({ on: parsedField(REMIND_DAY), ...REASON }),
    success: {
      schema: CHANGED_NOTICE,
      description: "The notice is put off; `changed` is false if it was put off until that day already",
    },
    codes: ["CONFLICT"],
    run: async (options, call) =>
      await answerChanged(
        options,
        call,
        await remindLater(options.database, call.uuid, { ...call, remindAt: call.body.on }),
      ),
  }),
];
