/** @jsxImportSource hono/jsx */
/** What pages say after an operator has marked a notice as done, put it off, or muted what it is about. */
import type { Child } from "hono/jsx";
import { toDay } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { counted } from "../../base/render_count.ts";
import { MOST_COUNTED } from "../../database/mod.ts";
import { LOOKS_EVERY, listNotices, type NoticeSummary, tellNotice } from "../../notices/mod.ts";
import { Foreign } from "../frame/console/components/values.tsx";
import { describeLastChange } from "../frame/console/last_change.tsx";
import type { Visit } from "../frame/console/visit.ts";

/** Says what becomes of a notice that is done, and which one of its occasion is still made. */
export function describeStay({ kind, stage }: NoticeSummary): string {
  if (stage < 0) return "It stays done. Later notices of the same end are still made, also after the end.";
  return kind === "quota_used" && stage < 100
    ? "It stays done. The notice of a larger share is still made."
    : "It stays done.";
}

/** What who marks a notice as done in a list should know before. */
export const DONE_STAYS =
  "A notice that is done cannot be opened again. To see it again on a day, put it off.";

/** The sentence of a notice, as the link to its page. */
export function NoticeLink({ of }: { readonly of: NoticeSummary }) {
  return (
    <a href={`/console/notices/${of.id}`}>
      <Foreign text={tellNotice(of)} />
    </a>
  );
}

export function sayDone(of: NoticeSummary) {
  return (
    <>
      <b>Marked as done:</b> <NoticeLink of={of} />. {describeStay(of)}
    </>
  );
}

export function sayPutOff(of: NoticeSummary) {
  if (of.remindAt === null) return null;
  return (
    <>
      <b>{`Put off until ${toDay(of.remindAt)}:`}</b> <NoticeLink of={of} />. It is open again from that day
      on, if it is still true.
    </>
  );
}

/** Says what was muted, and how many open notices that withdraws. */
export function sayMuted({ what, open }: { readonly what: Child; readonly open: number }) {
  return (
    <>
      <b>Muted: {what}.</b>{" "}
      {open === 0
        ? "No notice is made for it. "
        : `No notice is made for it, and its ${counted(open, "open notice", { most: MOST_COUNTED })} ${open === 1 ? "is" : "are"} withdrawn within ${LOOKS_EVERY}. `}
      Unmute ends it, here and on the page <a href="/console/notices/muted">Muted</a>.
    </>
  );
}

/** Says on a page with several notices what was last done with one of them; undefined if nothing was. */
export async function describeLastNoticeChange(visit: Visit) {
  const { options, now } = visit;
  const saidBy = (say: typeof sayDone | typeof sayPutOff) => async (_: unknown, after: unknown) => {
    const uuid = parseId("ntc", String(Object(after).notice)) ?? "";
    const [notice] = await listNotices(options.database, { now, filter: { uuids: [uuid] } });
    return notice && say(notice);
  };
  const doneElsewhere = { "notice.done": saidBy(sayDone), "notice.remind": saidBy(sayPutOff) };
  return await describeLastChange([], { of: undefined, visit, doneElsewhere });
}
