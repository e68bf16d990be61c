/** @jsxImportSource hono/jsx */
/** A new key, which only the answer to its form shows, and a message with which an operator hands it over. */
import { NEVER_EXPIRES, toDay, toTimestamp } from "../../base/calendar.ts";
import type { KeySummary } from "../../licensing/keys/mod.ts";
import { Copyable, Notice, Secret } from "../frame/console/components/layout.tsx";
import { SHOWN } from "../frame/console/last_change.tsx";

interface Props extends Pick<KeySummary, "id" | "tier" | "mode"> {
  readonly apiKey: string;
  /** The expiry of the license. */
  readonly expiresAt: Date;
  /** The key that this one replaces; without a time it works no more. */
  readonly old?: { readonly hint: string; readonly worksUntil?: Date | undefined };
  readonly publicUrl: string | undefined;
}

const NO_URL = "https://ADDRESS";

/** The key and the message. */
export function NewKey(props: Props) {
  return (
    <>
      <Notice kind="done">
        <Secret what="key" text={props.apiKey} next={`/console/keys/${props.id}?done=${SHOWN}`} />
      </Notice>
      <h2>Message for the customer</h2>
      <Copyable id="message" text={toMessage(props)} label="Copy the message" />
      {props.publicUrl === undefined && (
        <p class="hint">
          Replace {NO_URL} by the address at which clients reach the service. With the setting
          CLAVIGER_PUBLIC_URL the message contains it.
        </p>
      )}
    </>
  );
}

/** Returns the text for the customer, with a command that tries the key. */
function toMessage({ apiKey, tier, mode, expiresAt, old, publicUrl = NO_URL }: Props): string {
  const isEndless = expiresAt.getTime() === NEVER_EXPIRES.getTime();
  const until = isEndless ? "it does not expire" : `it works until ${toDay(expiresAt)}`;
  const oldEnds = old?.worksUntil ? `works until ${toTimestamp(old.worksUntil)}` : "no longer works";
  return [
    `This is your API key (${tier}, ${mode}; ${until}):`,
    apiKey,
    ...(old ? [`It replaces your key ${old.hint}, which ${oldEnds}.`] : []),
    "To try it:",
    `curl -s ${publicUrl}/v1/auth/validate -d '${JSON.stringify({ api_key: apiKey })}'`,
    "Keep it secret: anyone who has it can use your quota.",
  ].join("\n\n");
}
