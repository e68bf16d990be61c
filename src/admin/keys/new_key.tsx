/** @jsxImportSource hono/jsx */
/** A new key, which only the answer to its form shows, and a message with which an operator hands it over. */
import { NEVER_EXPIRES, toDay, toTimestamp } from "../../base/calendar.ts";
import { isReachedByOthers } from "../../base/listener_url.ts";
import { isRefusal } from "../../base/refusal.ts";
import { fillMessage, type KeySummary, readMessage, USUAL_MESSAGE } from "../../licensing/keys/mod.ts";
import { describeTerm, type Term } from "../../licensing/mod.ts";
import { Copyable, Notice, Secret } from "../frame/console/components/layout.tsx";
import { SHOWN } from "../frame/console/last_change.tsx";
import type { AdminOptions } from "../frame/options.ts";

interface Props extends Pick<KeySummary, "id" | "tier" | "mode" | "email"> {
  readonly apiKey: string;
  /** The customer's name; empty or undefined if it is not known. */
  readonly name: string | undefined;
  /** The expiry of the license. */
  readonly expiresAt: Date;
  /** The term of a license that has not begun; undefined for every other license. */
  readonly term?: Term | undefined;
  /** The key that this one replaces; without a time, or after it, that works no more. */
  readonly old?: { readonly hint: string; readonly worksUntil?: Date | undefined };
  readonly now: Date;
  readonly options: Pick<AdminOptions, "publicUrl" | "customerMessageFile">;
}

/** What the message has in the place of an address that customers cannot reach. */
const NO_ADDRESS = "https://ADDRESS-IS-MISSING";

/** The key and the message. */
export function NewKey(props: Props) {
  const { publicUrl, customerMessageFile } = props.options;
  const read = readMessage(customerMessageFile);
  const isReached = publicUrl !== undefined && isReachedByOthers(publicUrl);
  const message = fillMessage(isRefusal(read) ? USUAL_MESSAGE : read.text, {
    key: props.apiKey,
    license: describeLicense(props),
    address: isReached ? publicUrl : NO_ADDRESS,
    name: props.name || props.email,
  });
  return (
    <>
      <Notice kind="done">
        <Secret what="key" text={props.apiKey} next={`/console/keys/${props.id}?done=${SHOWN}`} />
      </Notice>
      <h2>Message for the customer</h2>
      {isRefusal(read) && <Notice kind="warning">{`${read.sentence}. This is the usual message.`}</Notice>}
      {message.includes(NO_ADDRESS) && (
        <Notice kind="warning">
          The message has no address, because the service does not know at which one customers reach it. Write
          the address in place of {NO_ADDRESS}, or set CLAVIGER_PUBLIC_URL.
        </Notice>
      )}
      <Copyable id="message" text={message} label="Copy the message" />
    </>
  );
}

/** Returns what the license is, until when it works, and which key this one replaces. */
function describeLicense({ tier, mode, expiresAt, term, old, now }: Props): string {
  const isEndless = expiresAt.getTime() === NEVER_EXPIRES.getTime();
  const ends = term
    ? `it works for ${describeTerm(term)}`
    : isEndless
      ? "it does not expire"
      : `it ${expiresAt > now ? "works until" : "expired on"} ${toDay(expiresAt)}`;
  const { worksUntil = now } = old ?? {};
  const oldEnds = worksUntil > now ? `works until ${toTimestamp(worksUntil)}` : "no longer works";
  const replaces = old ? `; it replaces your key ${old.hint}, which ${oldEnds}` : "";
  return `${tier}, ${mode}; ${ends}${replaces}`;
}
