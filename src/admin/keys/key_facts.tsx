/** @jsxImportSource hono/jsx */
import type { KeyExplanation } from "../../keys/mod.ts";
import { describePlaces } from "../../licensing/mod.ts";
import { renderCount } from "../../render_count.ts";
import { Facts } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Day, Foreign, KeyLink, Used } from "../frame/console/components/values.tsx";

interface FactsProps {
  readonly explanation: KeyExplanation;
  readonly now: Date;
  /** Requests a minute of each endpoint; 0 means unlimited. */
  readonly limits: Readonly<Record<string, number>>;
}

/** The facts of the key. */
export function KeyFacts({ explanation: { key, resetsAt }, now, limits }: FactsProps) {
  const names = [key.name === key.email ? "" : key.name, key.organization].filter((text) => text !== "");
  const hasOwnExpiry = key.expiresAt < key.licenseExpiresAt;
  return (
    <Facts
      facts={[
        ["Key id", <code>{key.id}</code>],
        [
          "Account",
          <>
            <AccountLink id={key.userId} email={key.email} />
            {names.map((text) => (
              <span class="more">
                <Foreign text={text} />
              </span>
            ))}
          </>,
        ],
        ["License id", <code>{key.licenseId}</code>],
        ["External id", key.externalId === null ? "none" : <Foreign text={key.externalId} />],
        ["Tier, mode", `${key.tier}, ${key.mode}`],
        ["Used this month", <Used used={key.used} limit={key.monthlyLimit} />],
        key.runsOutOn === null ? null : ["Runs out", <Day at={new Date(key.runsOutOn)} now={now} />],
        ["Resets", <Day at={new Date(resetsAt)} now={now} />],
        ["Machines", describePlaces(key)],
        ["Expires", <Day at={key.expiresAt} now={now} />],
        hasOwnExpiry && ["License expires", <Day at={key.licenseExpiresAt} now={now} />],
        ["Last used", key.lastUsedAt ? <Ago at={key.lastUsedAt} now={now} /> : "never"],
        ["Issued", <Ago at={key.createdAt} now={now} />],
        key.replacedBy === null ? null : ["Replaced by", <KeyLink id={key.replacedBy} />],
        ["Requests a minute", Object.entries(limits).map(toLimitText).join(", ")],
      ]}
    />
  );
}

function toLimitText([endpoint, limit]: readonly [string, number]): string {
  return `${endpoint} ${limit === 0 ? "unlimited" : renderCount(limit)}`;
}
