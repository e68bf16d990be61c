/** @jsxImportSource hono/jsx */
import { MUST_WAIT, type RefusalCount } from "../../keys/mod.ts";
import { renderCount } from "../../render_count.ts";
import { numeric, Table } from "../frame/console/components/table.tsx";
import { Ago } from "../frame/console/components/values.tsx";

/** The meaning of each recorded refusal. */
const MEANINGS: Readonly<Record<string, string>> = {
  INVALID_KEY: "The key was not active.",
  KEY_EXPIRED: "The key had expired.",
  KEY_NOT_FOUND: "A client wanted to revoke the key, which was revoked already.",
  LICENSE_REQUIRED: "The client asked for a model of a higher tier.",
  MACHINE_LIMIT_REACHED: "Every place for machines was taken.",
  NOT_CONFIGURED: "The service has no repository token: the page Health says more.",
  NOT_FOUND: "The client asked for a model that does not exist, or that the account cannot see.",
  QUOTA_EXCEEDED: "The quota of the month was used up.",
  RATE_LIMIT_EXCEEDED: `Too many requests in a minute: ${MUST_WAIT}.`,
};

/** Says why requests were refused, in words. */
export function meaningOf({ code, reason }: RefusalCount): string {
  return reason === null || code !== "INVALID_KEY" ? (MEANINGS[code] ?? code) : `The key was ${reason}.`;
}

/** Why requests with the key were refused, the latest refusal first. */
export function Refusals({ refusals, now }: RefusalsProps) {
  return (
    <section aria-labelledby="refusals">
      <h2 id="refusals">Refused requests</h2>
      {refusals.length === 0 ? (
        <p class="muted">No request with this key was refused.</p>
      ) : (
        <Table
          caption="Latest refusal first; a refusal appears some seconds after its answer"
          columns={[
            { label: "Code", cell: ({ code }) => <code>{code}</code> },
            { label: "Meaning", cell: meaningOf },
            numeric("Times", ({ count }) => renderCount(count)),
            { label: "Last time", cell: ({ lastAt }) => <Ago at={lastAt} now={now} /> },
          ]}
          rows={refusals}
        />
      )}
    </section>
  );
}

interface RefusalsProps {
  readonly refusals: readonly RefusalCount[];
  readonly now: Date;
}
