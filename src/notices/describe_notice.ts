/** The sentence of each notice: whom it is about, what will happen or has happened and when, and what to do. */
import { describeEnd } from "../base/calendar.ts";
import { counted, renderCount } from "../base/render_count.ts";
import type { NoticeKind } from "./kinds.ts";
import type { NoticeSummary } from "./notice.ts";

/** What a sentence is made of. A fact that is missing, because another version wrote the row, is empty or 0. */
interface Told {
  /** The customer and the key. */
  readonly whom: string;
  readonly stage: number;
  /** A fact; an instant to the minute. */
  readonly text: (name: string) => string;
  /** The end: on a day if it is the last second of it, else at a minute. */
  readonly end: string;
  readonly number: (name: string) => number;
}

/** What a notice tells, and what to do about it: each a sentence without a period at its end. */
type Said = readonly [what: string, advice: string];

const RENEW = "Renew it if the customer stays";
const PROLONG = "Give a later end of updates if the customer has paid for them";
const RAISE = "Raise its monthly limit if the customer needs more";

const SENTENCES: Readonly<Record<NoticeKind, (told: Told) => Said>> = {
  license_end: ({ whom, stage, end }) =>
    stage === 0
      ? [`The license of ${whom} ended ${end}`, RENEW]
      : [`The license of ${whom} ends within ${counted(-stage, "day")}, ${end}`, RENEW],
  updates_end: ({ whom, stage, end }) =>
    stage === 0
      ? [
          `The updates of the license of ${whom} ended ${end}: versions of models that are registered later are not for it`,
          PROLONG,
        ]
      : [`The updates of the license of ${whom} end within ${counted(-stage, "day")}, ${end}`, PROLONG],
  quota_used: ({ whom, stage, text, number }) =>
    stage >= 100
      ? [
          `The license of ${whom} has used its quota up: ${renderCount(number("used"))} of ${renderCount(number("limit"))}, and further use is refused until ${text("resets_at")}`,
          RAISE,
        ]
      : [
          `The license of ${whom} has used ${shareWords(number)}, which resets at ${text("resets_at")}`,
          RAISE,
        ],
  quota_runs_out: ({ whom, text, number }) => [
    `The license of ${whom} will have used its quota up on ${text("day")}, at the rate of the last seven days: ${renderCount(number("used"))} of ${renderCount(number("limit"))} so far, and the quota resets at ${text("resets_at")}`,
    RAISE,
  ],
  places_full: (told) => [
    `${placesWords(told)}: ${told.text("refused_at") === "" ? "no further machine gets one" : `a further machine was refused at ${told.text("refused_at")}`}`,
    `Give the license more places, or release machines`,
  ],
  refusals: ({ whom, text, number }) => [
    `The key of ${whom} was refused ${counted(number("refused"), "time")} in the hour from ${text("hour")} on, mostly with ${text("code")}`,
    `Look at why, on the page of the key or with \`claviger keys why\``,
  ],
  rotated_key_used: ({ whom, text }) => [
    `The key of ${whom} was rotated, and was still used at ${text("used_at")}; ${text("is_refused") === "true" ? `it has been refused since ${text("ends_at")}` : `it is refused from ${text("ends_at")} on`}`,
    `Tell the customer to change to the new key`,
  ],
  silent_key_used: ({ whom, text }) => [
    `The key of ${whom} was used at ${text("used_at")}; the use before was at ${text("silent_since")}`,
    `Ask the customer whether that is right, and suspend the key if it is not`,
  ],
  backup_overdue: ({ text }) => [
    `There has been no backup since ${text("last_at")}: the next one was due by ${text("due_at")}`,
    `Look at why the timer took none`,
  ],
  certificate_end: ({ stage, text, end }) => [
    `The certificate of ${text("host")} ${endWords(stage, end)}`,
    `Replace its files, then run \`systemctl reload claviger\``,
  ],
  installer_token_end: ({ stage, end }) => [
    `The stored repository token ${endWords(stage, end)}`,
    `Set another one with \`claviger installer set-token\``,
  ],
  model_files: ({ text }) => [
    `Files of models in ${text("place")} are not as they should be: ${text("wrong")}`,
    `\`claviger models verify\` names them`,
  ],
};

/** Says an instant to the minute; a day stays as it is. */
function toMinute(at: string): string {
  return at.replace(/T(\d\d:\d\d):\d\dZ$/, " $1 UTC");
}

/** Says when something ends: on a day if it is the last second of it, else at a minute. */
function sayEnd(end: string): string {
  const day = describeEnd(end);
  return `${day === end ? "at" : "on"} ${toMinute(day)}`;
}

/** Says the share that is used now: a stage only tells which share it has passed. */
function shareWords(number: Told["number"]): string {
  const [used, limit] = [number("used"), number("limit")];
  const percent = Math.floor((used * 100) / Math.max(limit, 1));
  return `${percent} % of its quota (${renderCount(used)} of ${renderCount(limit)})`;
}

function placesWords({ whom, text, number }: Told): string {
  const places = number("places");
  const [all, have] =
    places === 1 ? ["The only place", "has"] : [`All ${renderCount(places)} places`, "have"];
  return `${all} for machines of the license of ${whom} ${have} been taken since ${text("full_since")}`;
}

function endWords(stage: number, end: string): string {
  return `${stage === 0 ? "ended" : `ends within ${counted(-stage, "day")},`} ${end}`;
}

/** Says a notice, and what to do about it, without a period at the end. */
export function describeNotice(notice: NoticeSummary): string {
  return sentencesOf(notice).join(". ");
}

/** Says what a notice tells, without advice, and without a period at the end. */
export function tellNotice(notice: NoticeSummary): string {
  const [what] = sentencesOf(notice);
  return what;
}

function sentencesOf({ kind, stage, email, key, facts }: NoticeSummary): Said | readonly [what: string] {
  const whom = email === null ? "" : key === null ? email : `${email} (${key})`;
  const told = {
    whom,
    stage,
    end: sayEnd(String(facts.ends_at ?? "")),
    text: (name: string) => toMinute(String(facts[name] ?? "")),
    number: (name: string) => Number(facts[name] ?? 0),
  };
  // A newer version may have written the row.
  return (
    SENTENCES[kind]?.(told) ?? [`There is a notice of the kind ${kind}, which this version does not know`]
  );
}
