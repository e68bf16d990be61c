/** The rows that the page Health makes from its facts. */

import { DAY_MS, toDay, toTimeOfDay } from "../../base/calendar.ts";
import { counted } from "../../base/render_count.ts";
import type { ServingProcess } from "../../database/processes/mod.ts";
import type { Finding } from "../../installation/doctor/mod.ts";
import type { ListedToken } from "../../operators/mod.ts";
import type { Unusual } from "../../usage/activity/mod.ts";
import { nameOfCode } from "../../wire/mod.ts";
import type { Slow } from "./slow.ts";

/** A thing that stops working at a time that is known. */
export interface Expiry {
  /** Such as `token shop`. */
  readonly what: string;
  readonly expiresAt: Date;
  readonly state: "good" | "soon" | "expired";
  readonly remedy: string;
}

/** The log begins to warn about the certificate at the same time. */
const SOON_MS = 14 * DAY_MS;
/** The most tokens of the page: it shows those that expire first. */
const MOST_TOKENS = 50;

/** Returns what expires, the first expiry first. Tokens that were revoked, or expired over 30 days ago, are left out. */
export function listExpiries(
  certificateExpiresAt: Date | undefined,
  tokens: readonly ListedToken[],
  now: Date,
): readonly Expiry[] {
  const stateAt = (at: Date): Expiry["state"] => {
    const leftMs = at.getTime() - now.getTime();
    return leftMs <= 0 ? "expired" : leftMs < SOON_MS ? "soon" : "good";
  };
  const ofTokens = tokens.flatMap(({ name, state, expiresAt }) => {
    if (expiresAt === null || state === "revoked" || now.getTime() - expiresAt.getTime() > 30 * DAY_MS)
      return [];
    const remedy = `renew it with \`claviger tokens renew ${name} --expires-at TIME\`, or revoke it`;
    return [{ what: `token ${name}`, expiresAt, state: stateAt(expiresAt), remedy } as const];
  });
  const shown = ofTokens.toSorted((a, b) => a.expiresAt.getTime() - b.expiresAt.getTime());
  const certificate = certificateExpiresAt && {
    what: "certificate",
    expiresAt: certificateExpiresAt,
    state: stateAt(certificateExpiresAt),
    remedy: "replace its files, then run `systemctl reload claviger`",
  };
  return [...(certificate ? [certificate] : []), ...shown.slice(0, MOST_TOKENS)];
}

interface HealthFacts {
  readonly findings: readonly Finding[];
  readonly expiries: readonly Expiry[];
  readonly processes: readonly ServingProcess[];
  /** Of the last day, by code, the latest first. */
  readonly unusual: readonly Unusual[];
  readonly slow: readonly Slow[];
  readonly now: Date;
}

/** The kinds of unusual answers that the sentence names, those of the latest hours: the page Activity has all. */
const MOST_NAMED = 3;

/** Returns one line that sums up the page, and whether its news is good, a warning or bad. */
export function summarize({ findings, expiries, processes, unusual, slow, now }: HealthFacts) {
  const wrong = [...namesOf(findings, "fail"), ...expiredOf(expiries, "expired")];
  const soon = [...namesOf(findings, "warn"), ...expiredOf(expiries, "soon")];
  const lost = processes.filter(({ isLost }) => isLost).length;
  if (lost > 0) soon.push(lost === 1 ? "a process is lost" : `${lost} processes are lost`);
  soon.push(...slow.map(({ says }) => says));
  const kinds = [...Map.groupBy(unusual, describeUnusual)];
  for (const [what, hours] of kinds.slice(0, MOST_NAMED)) {
    const last = hours[0] && timeWords(hours[0].at, now);
    soon.push(hours.length === 1 ? `${what} ${last}` : `${what} in ${hours.length} hours, the last ${last}`);
  }
  if (kinds.length > MOST_NAMED)
    soon.push(`${counted(kinds.length - MOST_NAMED, "other kind")} of unusual answers`);
  const sentences = [
    ...(wrong.length > 0 ? [`Wrong: ${wrong.join(", ")}.`] : []),
    ...(soon.length > 0 ? [`Needs attention: ${soon.join(", ")}.`] : []),
  ];
  if (sentences.length > 0) {
    return { tone: wrong.length > 0 ? "bad" : "warning", sentence: sentences.join(" ") } as const;
  }
  const serving = processes.length === 1 ? "1 process serves" : `${processes.length} processes serve`;
  return { tone: "good", sentence: `Everything works. ${serving} this database.` } as const;
}

const describeUnusual = ({ name, kind }: Unusual) =>
  `unusually ${kind === "high" ? "many" : "few"} answers “${name === "OK" ? "without an error" : nameOfCode(name)}”`;

/** Says an hour of the last day. */
const timeWords = (at: Date, now: Date) =>
  `${toDay(at) === toDay(now) ? "" : "yesterday "}at ${toTimeOfDay(at)}`;

const namesOf = (findings: readonly Finding[], state: Finding["state"]) =>
  findings.filter((finding) => finding.state === state).map(({ name }) => name);

const expiredOf = (expiries: readonly Expiry[], state: Expiry["state"]) =>
  expiries
    .filter((expiry) => expiry.state === state)
    .map(({ what }) => `${what} ${state === "soon" ? "expires soon" : "has expired"}`);
