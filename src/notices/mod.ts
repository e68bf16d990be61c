/**
 * Notices: what operators should know before a customer calls. Owns the tables `notices` and `muted_notices`.
 *
 * A notice is a row for its kind, its subject, its occasion and its stage, made by the state of things and not by the passing of a
 * moment. So it exists once, whatever the number of processes, restarts and pauses. The upkeep makes notices, and withdraws those
 * that are not true any more; operators mark them as done or put them off. Each of these writes its row of the audit log, so
 * whoever follows that log learns of every notice.
 */

export type { NoticeContext } from "./_in_batches.ts";
export { type InstallationState, noticeInstallation } from "./_installation.ts";
export { MOST_DAYS_OFF, markDone, REMIND_DAY, remindLater } from "./change_notice.ts";
export { describeNotice, tellNotice } from "./describe_notice.ts";
export {
  KIND_MEANINGS,
  NOTICE_KINDS,
  NOTICE_STATES,
  type NoticeKind,
  type NoticeState,
  STATE_MEANINGS,
  WITHDRAWN_WORDS,
} from "./kinds.ts";
export { listMuted, MUTED_FIELDS, type Muted, renderMuted } from "./list_muted.ts";
export { countNotices, countOpenNotices, findNotice, listNotices } from "./list_notices.ts";
export { MUTABLE, type Mutable, mute, unmute } from "./mute.ts";
export { isOpenNotice, type NoticeSummary } from "./notice.ts";
export { NOTICE_FIELDS, renderNotice } from "./notice_fields.ts";
export { findNoticeFilter, NOTICE_CONDITIONS, type NoticeFilter } from "./notice_filter.ts";
export { createNoticesUpkeep, LOOKS_EVERY, makeNotices } from "./notices_upkeep.ts";
export { sayRows } from "./say_rows.ts";
export type { NoticeSettings } from "./settings.ts";
