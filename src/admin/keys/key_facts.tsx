/** @jsxImportSource hono/jsx */
import type { KeyExplanation } from "../../keys/mod.ts";
import { describePlaces } from "../../licensing/mod.ts";
import { Id } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Day, Foreign, KeyLink } from "../frame/console/components/values.tsx";

interface FactsProps {
  readonly explanation: KeyExplanation;
  readonly now: Date;
}

/** The facts of the key. */
export function KeyFacts({ explanation: { key }, now }: FactsProps) {
  const names = [key.name === key.email ? "" : key.name, key.organization].filter((text) => text !== "");
  const hasOwnExpiry = key.expiresAt < key.licenseExpiresAt;
  return (
    <Facts
      facts={[
        ["Key id", <Id id={key.id} />],
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
        ["License id", <Id id={key.licenseId} />],
        ["External id", key.externalId === null ? "none" : <Foreign text={key.externalId} />],
        ["Mode", key.mode],
        ["Machines", describePlaces(key)],
        hasOwnExpiry && ["License expires", <Day at={key.licenseExpiresAt} now={now} />],
        ["Last used", key.lastUsedAt ? <Ago at={key.lastUsedAt} now={now} /> : "never"],
        ["Issued", <Ago at={key.createdAt} now={now} />],
        key.replacedBy === null ? null : ["Replaced by", <KeyLink id={key.replacedBy} />],
      ]}
    />
  );
}
