/** @jsxImportSource hono/jsx */
/** What the customer sees: what validate answers for the key now, and why requests were refused. */

import { renderCount } from "../../base/render_count.ts";
import {
  type KeyExplanation,
  type KeySummary,
  MUST_WAIT,
  OBSTACLE_REFUSALS,
  type RefusalCount,
} from "../../licensing/keys/mod.ts";
import { entitlementsOf, leastLimitOf } from "../../licensing/mod.ts";
import { limitsOfKey, nameOfEndpoint, sentenceOfCode, statusOf } from "../../wire/mod.ts";
import { Facts, numeric, Table } from "../frame/console/components/table.tsx";
import { Ago, Day, daysUntil, Lines, Used } from "../frame/console/components/values.tsx";
import { Features, Values } from "./grants.tsx";

/** The most refusals that are named here; the table of the page has all. */
const MOST_REFUSALS = 2;

interface Props {
  readonly explanation: KeyExplanation;
  readonly now: Date;
}

interface CustomerSeesProps extends Props {
  /** The units of the month that imported reports had beyond the limit. */
  readonly over: number;
}

/** The answer of validate, what it says of the license, and the latest refusals. */
export function CustomerSees({ explanation, over, now }: CustomerSeesProps) {
  const { key, resetsAt, refusals } = explanation;
  return (
    <section class="sees" aria-labelledby="sees">
      <h2 id="sees">What the customer sees</h2>
      <Facts
        facts={[
          ["A check of the key says", <Answer {...key} />],
          ["Tier", key.tier],
          ["Features", <Features of={key} now={now} />],
          hasValues(key) && ["Values", <Values of={key} />],
          [
            "Used this month",
            <>
              <Used used={key.used} limit={key.monthlyLimit} over={over} />{" "}
              <a href={`/console/licenses/${key.licenseId}#use`}>by day</a>
            </>,
          ],
          key.runsOutOn !== null && ["Runs out", `${key.runsOutOn}, ${daysUntil(key.runsOutOn, now)}`],
          ["Resets", <Day at={new Date(resetsAt)} now={now} />],
          ["Expires", <Day at={key.expiresAt} now={now} />],
          ["Last used", <Ago at={key.lastUsedAt} now={now} />],
          refusals.length > 0 && [
            "Refused lately",
            refusals.slice(0, MOST_REFUSALS).map((refusal) => (
              <p>
                {explain(refusal)} <Ago at={refusal.lastAt} now={now} />
              </p>
            )),
          ],
        ]}
      />
    </section>
  );
}

function hasValues(key: KeySummary): boolean {
  return Object.keys(entitlementsOf(key)).length > 0;
}

/**
 * The message, and below it the status and the code, which customers may name. Too many requests are counted by key: they
 * need not be checks of the key.
 */
function Answer({ obstacles: [obstacle] }: Pick<KeySummary, "obstacles">) {
  if (obstacle === undefined) return "the key is valid";
  const { code, sentence } = OBSTACLE_REFUSALS[obstacle];
  const text =
    obstacle === "too_many_requests"
      ? "the key is valid; some requests are refused, because there are too many in a minute"
      : sentence;
  return (
    <Lines
      text={text}
      more={
        <>
          {statusOf(code)} <code>{code}</code>
        </>
      }
    />
  );
}

/** Says how many requests of each endpoint a key may send in a minute; 0 means that there is no limit. */
export function describeLimits(key: KeySummary, limits: Readonly<Record<string, number>>): string {
  return Object.entries(limitsOfKey(limits, leastLimitOf(key)))
    .map(toLimitText)
    .join(", ");
}

function toLimitText([endpoint, limit]: readonly [string, number]): string {
  return `${nameOfEndpoint(endpoint)} ${limit === 0 ? "unlimited" : renderCount(limit)}`;
}

/** What the meaning of a code lacks on the page of a key. */
const OF_KEY: Readonly<Record<string, string>> = {
  KEY_NOT_FOUND: "A client wanted to revoke the key, which was revoked already.",
  NOT_CONFIGURED: `${sentenceOfCode("NOT_CONFIGURED")}: the page Health says more.`,
  RATE_LIMIT_EXCEEDED: `Too many requests in a minute: ${MUST_WAIT}.`,
};

/** Says why requests were refused, in words. */
function explain({ code, reason }: RefusalCount): string {
  if (reason !== null && code === "RATE_LIMIT_EXCEEDED")
    return `Too many ${nameOfEndpoint(reason)} in a minute: ${MUST_WAIT}.`;
  return reason === null || code !== "INVALID_KEY"
    ? (OF_KEY[code] ?? `${sentenceOfCode(code)}.`)
    : `The key was ${reason}.`;
}

/** Why requests with the key were refused, the latest refusal first. */
export function RefusalsOfKey({ refusals, now }: Pick<KeyExplanation, "refusals"> & { readonly now: Date }) {
  return (
    <section aria-labelledby="refusals">
      <h2 id="refusals">Refused requests</h2>
      <Table
        none={<p class="muted">No request with this key was refused.</p>}
        caption="Latest refusal first; a refusal appears some seconds after its answer"
        columns={[
          {
            label: "Why",
            cell: (refusal: RefusalCount) => (
              <Lines text={explain(refusal)} more={<code>{refusal.code}</code>} />
            ),
          },
          numeric("Times", ({ count }) => renderCount(count)),
          { label: "Last time", cell: ({ lastAt }) => <Ago at={lastAt} now={now} /> },
        ]}
        rows={refusals}
      />
    </section>
  );
}
