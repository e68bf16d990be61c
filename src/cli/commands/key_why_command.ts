/** `claviger keys why`: explains why a key works or does not, for the operator who answers the customer. */
import { NEVER_EXPIRES, toTimestamp } from "../../base/calendar.ts";
import type { Code } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import { escapeControls } from "../../base/text/mod.ts";
import {
  describeRefused,
  explainKey,
  type KeyExplanation,
  type KeySummary,
  MUST_WAIT,
  type Obstacle,
  renderExplanation,
} from "../../licensing/keys/mod.ts";
import {
  describePlaces,
  describeTerm,
  ERASED,
  isErased,
  isWaiting,
  leastLimitOf,
  monthlyLimitOf,
  refuseUnknownKey,
} from "../../licensing/mod.ts";
import { limitsOfKey, meaningOfCode } from "../../wire/mod.ts";
import { databaseCommand } from "../command.ts";
import type { Invocation } from "../invocation.ts";
import { KEY_ID } from "../options.ts";
import type { Printer } from "../print.ts";
import { orRefuse } from "../run.ts";
import { hangText, NO_BREAK, withBlanks, wrapText } from "../wrap_text.ts";

export const why = databaseCommand({
  name: "why",
  description: "explain why a key works or does not: its state, its limits and its last refusals",
  arguments: KEY_ID,
  async run({ id, json }, { invocation, config, database, now, print }) {
    const explanation = orRefuse(
      (await explainKey(database, id, { now })) ?? refuseUnknownKey("explain key", id),
    );
    const limits = limitsOfKey(config.limits, leastLimitOf(explanation.key));
    if (json) print.document(renderExplanation(explanation, limits));
    else printPage(invocation, print, { explanation, limits, now });
  },
});

function printPage(
  { out }: Invocation,
  print: Printer,
  {
    explanation,
    limits,
    now,
  }: { readonly explanation: KeyExplanation; readonly limits: Limits; readonly now: Date },
): void {
  const { key, since, change, refusals } = explanation;
  const fields: Record<string, string> = {
    key: `${key.id} ${key.hint}`,
    account: key.email,
    tier: `${key.tier}, ${key.mode}`,
    state: since === null ? key.state : `${key.state} since ${toTimestamp(since)}`,
    by: change === null ? "" : `${change.actor} (${change.action})`,
    reason: change?.reason ?? "",
    term: key.termDays === null ? "" : describeTerm(key, now),
    expires: key.expiresAt >= NEVER_EXPIRES ? "never" : toTimestamp(key.expiresAt),
    quota: renderQuota(explanation),
    machines: key.maxMachines === null ? "" : describePlaces(key),
    limits: renderLimits(limits),
    "last used":
      key.lastUsedAt === null ? "never (a use is recorded within a minute)" : toTimestamp(key.lastUsedAt),
    "replaced by": key.replacedBy ?? "",
    refused: refusals.length === 0 ? "never" : "",
  };
  for (const [name, value] of Object.entries(fields)) {
    if (value === "") continue;
    const words = escapeControls(value).replaceAll(LONG_WORD, "$& ");
    const text = hangText(words, { indent: INDENT, columns: WIDTH });
    out(`${name.padEnd(INDENT)}${withBlanks(text)}\n`);
  }
  if (refusals.length > 0) {
    out("\n");
    const rows = refusals.map(({ lastAt, count, code, reason }) => ({
      "last refused": lastAt,
      count,
      code,
      reason,
    }));
    print.table(rows);
  }
  const advice =
    key.obstacles.length === 0
      ? [{ sentence: isWaiting(key, now) ? `${WORKS} ${WAITS}` : WORKS }, ...adviceOn(explanation)]
      : key.obstacles.map((obstacle) => ADVICE[obstacle](key));
  for (const { sentence, command } of advice) {
    out(`\n${wrapText(sentence, WIDTH).join("\n")}\n`);
    if (command !== undefined) out(`  claviger ${command}\n`);
  }
}

type Limits = ReturnType<typeof limitsOfKey>;

const WIDTH = 80;
const INDENT = 13;
/** As much of a word as fits in a line. The rest goes on in the next line, since no line may be longer. */
const LONG_WORD = new RegExp(`\\S{${WIDTH - INDENT}}`, "gu");

function renderQuota({ key, resetsAt }: KeyExplanation): string {
  const used = renderCount(key.used);
  if (key.monthlyLimit === null) return `${used} inferences used this month, without a limit`;
  const limit = renderCount(key.monthlyLimit);
  const whose = key.monthlyLimit === monthlyLimitOf(key.tier) ? "the tier's" : "the license's own";
  return `${used} of ${limit} inferences used this month (${whose} limit); resets at ${resetsAt}`;
}

function renderLimits(limits: Limits): string {
  const parts = Object.entries(limits).map(
    ([endpoint, limit]) => `${endpoint}${NO_BREAK}${limit === 0 ? "unlimited" : renderCount(limit)}`,
  );
  return `requests a minute: ${parts.join(", ")}`;
}

interface Advice {
  readonly sentence: string;
  readonly command?: string;
}

const WORKS = "The key works: it is active, and its quota is not used up.";
const WAITS = "Its license waits for its first use, with which its term begins.";

/** The remedy of each obstacle. */
const ADVICE: Readonly<Record<Obstacle, (key: KeySummary) => Advice>> = {
  revoked: (key) =>
    isErased(key)
      ? { sentence: `The key is revoked for good, and ${ERASED}.` }
      : newerOr(key, {
          sentence: "The key is revoked for good. Replace it with a new one:",
          command: `keys replace ${key.id}`,
        }),
  replaced: (key) =>
    newerOr(key, {
      sentence: "The key was rotated, and the overlap is over. Issue a new one:",
      command: `keys issue --email EMAIL --tier ${key.tier}`,
    }),
  suspended: ({ id }) => ({
    sentence: "The key is suspended. When the cause is settled, resume it:",
    command: `keys resume ${id}`,
  }),
  expired: ({ id }) => ({
    sentence: "The license has expired. Give it another expiry:",
    command: `keys renew ${id} --expires-at TIME`,
  }),
  quota_used_up: ({ id }) => ({
    sentence: "The month's quota is used up. Wait until it resets, or give the license a higher limit:",
    command: `keys limit ${id} N`,
  }),
  too_many_requests: (key) => ({
    sentence: `Some requests were refused because there were too many (${describeRefused(key)}): ${MUST_WAIT}.`,
  }),
};

function newerOr({ replacedBy }: KeySummary, advice: Advice): Advice {
  if (replacedBy === null) return advice;
  return {
    sentence: `The customer should use the key that replaced this one, ${replacedBy}. Look at that key:`,
    command: `keys why ${replacedBy}`,
  };
}

/** Returns what the operator can do about the last refusal of a key that works. */
function adviceOn({ key, refusals: [last] }: KeyExplanation): Advice[] {
  const steps: Partial<Record<Code, readonly [todo: string, command?: string]>> = {
    RATE_LIMIT_EXCEEDED: [`, so ${MUST_WAIT}.`],
    LICENSE_REQUIRED: [". Give the license that tier:", `keys tier ${key.id} TIER`],
    MACHINE_LIMIT_REACHED: [". See who holds them:", `machines list --license ${key.licenseId}`],
    RELEASE_LIMIT_REACHED: [". Release one for the customer:", `machines list --license ${key.licenseId}`],
    NOT_FOUND: [". List the models:", "models list"],
    NOT_CONFIGURED: [". Look for the cause:", "doctor"],
  };
  const [todo, command] = (last && steps[last.code]) ?? [];
  if (last === undefined || todo === undefined) return [];
  const sentence = `The last refusal: ${meaningOfCode(last.code)}${todo}`;
  return [command === undefined ? { sentence } : { sentence, command }];
}
