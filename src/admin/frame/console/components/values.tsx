/** @jsxImportSource hono/jsx */
/** Values as people read them. */
import type { Child } from "hono/jsx";
import { DAY_MS, NEVER_EXPIRES, toDay, toTimestamp } from "../../../../base/calendar.ts";
import { renderCount } from "../../../../base/render_count.ts";
import { escapeControls } from "../../../../base/text/mod.ts";
import { describeObstacles, type KeySummary, type Obstacle } from "../../../../licensing/keys/mod.ts";
import { isErased, percentUsed } from "../../../../licensing/mod.ts";
import { NEAR_QUOTA_PERCENT } from "../../../../usage/figures/mod.ts";
import { cutText, MOST_OF_NAME } from "../cut_text.ts";
import { distanceOf } from "../distance.ts";

/**
 * Text that others wrote: control characters are shown as escapes, and its writing direction does not affect other
 * text.
 */
export function Foreign({ text }: { readonly text: string }) {
  return <bdi>{escapeControls(text)}</bdi>;
}

/** A name that others gave, cut so that a page stays small. */
export function Name({ text }: { readonly text: string }) {
  return <Foreign text={cutText(text, MOST_OF_NAME)} />;
}

/** A link to a key, by its id or by another text. */
export function KeyLink({ id, text = id }: { readonly id: string; readonly text?: string }) {
  return (
    <a href={`/console/keys/${id}`}>
      <code>{text}</code>
    </a>
  );
}

/** A link to a license. */
export function LicenseLink({ id }: { readonly id: string }) {
  return (
    <a href={`/console/licenses/${id}`}>
      <code class="id">{id}</code>
    </a>
  );
}

interface AccountLinkProps {
  readonly id: string;
  readonly email: string;
  /** Whether the column is wide. */
  readonly hasRoom?: boolean;
}

/** A link to an account. */
export function AccountLink({ id, email, hasRoom = false }: AccountLinkProps) {
  return (
    <a href={`/console/accounts/${id}`}>
      <Email text={email} mostOnLine={hasRoom ? MOST_IN_WIDE : MOST_IN_NARROW} />
    </a>
  );
}

/** The most characters of an e-mail that fit on a line of a wide column, and of a narrow one. */
const MOST_IN_WIDE = 36;
const MOST_IN_NARROW = 20;

/**
 * Where a line of an e-mail may end: after the `@`, and after a long part with another sign. Browsers end lines after
 * a hyphen by themselves. Short parts stay together, so that a page stays small.
 */
const END_OF_LINE = /(?<=@|[^-@]{12}[._+])(?=[^-]{6})/;

/** An e-mail. The lines of a long one end after a sign, so that no word of it is broken. */
function Email({ text, mostOnLine }: { readonly text: string; readonly mostOnLine: number }) {
  if (text.length <= mostOnLine) return <Foreign text={text} />;
  const [first, ...others] = escapeControls(text).split(END_OF_LINE);
  return (
    <bdi>
      {first}
      {others.map((part) => (
        <>
          <wbr />
          {part}
        </>
      ))}
    </bdi>
  );
}

interface Person {
  readonly email: string;
  readonly name: string;
  readonly organization: string;
}

/** Names a customer in a title: by name and organization, else by the e-mail. */
export function nameOfCustomer({ email, name, organization }: Person): string {
  if (isErased({ email })) return "An erased account";
  const names = [name === email ? "" : name, organization].filter((text) => text !== "");
  return escapeControls(
    (names.length > 0 ? names : [email]).map((text) => cutText(text, MOST_OF_NAME)).join(", "),
  );
}

interface CustomerProps extends Pick<AccountLinkProps, "email" | "hasRoom"> {
  readonly userId: string;
  /** Names of the account and the license, each on a line of its own; empty texts are left out. */
  readonly more: readonly string[];
}

/** The account of a row in a list. */
export function Customer({ userId, more, ...shown }: CustomerProps) {
  return (
    <>
      <AccountLink id={userId} {...shown} />
      {more
        .filter((text) => text !== "")
        .map((text) => (
          <small>
            <Name text={text} />
          </small>
        ))}
    </>
  );
}

interface NamedCustomerProps extends CustomerProps {
  /** The first that is not empty is the link, and the others and the e-mail stand below it. */
  readonly names: readonly string[];
}

/** The account of a row in a list, led by its name: the e-mail leads only if there is none. */
export function NamedCustomer({ userId, email, names, more }: NamedCustomerProps) {
  const [first = "", ...others] = [...new Set([...names, email])].filter((text) => text !== "");
  return <Customer userId={userId} email={cutText(first, MOST_OF_NAME)} more={[...others, ...more]} />;
}

/** Stands for a value that there is not. */
export const NONE = <span class="muted">none</span>;

/** A text, and another one on a line of its own, which is left out if it is empty. */
export function Lines({ text, more }: { readonly text: Child; readonly more: Child }) {
  return (
    <>
      {text}
      {more && <small>{more}</small>}
    </>
  );
}

export interface PillProps {
  readonly tone: "good" | "warning" | "bad" | "expired";
  readonly children?: Child;
}

/** A word that is a state, with a color that fits it. */
export function Pill({ tone, children }: PillProps) {
  return <span class={`state ${tone}`}>{children}</span>;
}

const TONES: Readonly<Record<Obstacle, string>> = {
  revoked: "revoked",
  replaced: "expired",
  suspended: "suspended",
  expired: "expired",
  quota_used_up: "bad",
  too_many_requests: "warning",
};

/** The state of a key: why the service refuses it now, or else that it is active. */
export function State({ of }: { readonly of: KeySummary }) {
  return (
    <span>
      {of.obstacles.every((obstacle) => obstacle === "too_many_requests") && (
        <span class="state active">active</span>
      )}
      {of.overlapsSince && <span class="state warning">rotated</span>}
      {describeObstacles(of).map(({ obstacle, words, details }) => (
        <>
          {" "}
          <span class={`state ${TONES[obstacle]}`}>{words}</span> {details && <small>{details}</small>}
        </>
      ))}
    </span>
  );
}

/** A day, as `2026-11-22`, and with `now` its distance in calendar days; the exact time appears at the pointer. */
export function Day({ at, now }: { readonly at: Date; readonly now?: Date | undefined }) {
  if (at.getTime() === NEVER_EXPIRES.getTime()) return "never";
  const exact = toTimestamp(at);
  const isNear = now && toDay(at) > toDay(now) && at.getTime() - now.getTime() < 100 * DAY_MS;
  return (
    <>
      <time title={exact}>{toDay(at)}</time>
      {now && <small>{isNear ? daysUntil(toDay(at), now) : distanceOf(at, now)}</small>}
    </>
  );
}

/** Returns how far a day is from that of now: `today`, `tomorrow`, `in 6 days`. */
export function daysUntil(day: string, now: Date): string {
  const days = Math.max(0, (Date.parse(day) - Date.parse(toDay(now))) / DAY_MS);
  return ["today", "tomorrow"][days] ?? `in ${days} days`;
}

/** A minute, as `2026-11-22 12:30`, which programs read too. */
export function Minute({ at }: { readonly at: Date }) {
  return <time>{toTimestamp(at).slice(0, 16).replace("T", " ")}</time>;
}

/** A minute and its distance: `2026-11-22 12:30`, `3 hours ago`; null is never. */
export function Ago({ at, now }: { readonly at: Date | null; readonly now: Date }) {
  if (at === null) return <span class="muted">never</span>;
  return (
    <>
      <Minute at={at} />
      <Distance at={at} now={now} />
    </>
  );
}

interface AsOfProps {
  readonly at: Date;
  readonly now: Date;
  readonly children?: Child;
}

/** When the numbers above were counted, and where there is more. */
export function AsOf({ at, now, children }: AsOfProps) {
  return (
    <p class="as-of">
      <span>
        As of <Ago at={at} now={now} />
      </span>
      {children && <span>{children}</span>}
    </p>
  );
}

function Distance({ at, now }: { readonly at: Date; readonly now: Date }) {
  return <small>{distanceOf(at, now)}</small>;
}

/** A bar that is full at 100 percent; it stands out if little is left. */
export function Bar({ percent, isNear = false }: { readonly percent: number; readonly isNear?: boolean }) {
  return (
    <svg
      class={isNear ? "bar near" : "bar"}
      viewBox="0 0 100 4"
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <rect width={percent} height="4" />
    </svg>
  );
}

interface UsedProps {
  readonly used: number;
  readonly limit: number | null;
  /** The units that reports had beyond the limit. */
  readonly over?: number;
}

/** A count with its limit, and a bar for both, which warns in words when little is left; null is no limit. */
export function Used({ used, limit, over = 0 }: UsedProps) {
  const count = renderCount(used);
  const percent = percentUsed(used, limit);
  const beyond = over > 0 && <small class="near">{`${renderCount(over)} more beyond the limit`}</small>;
  if (limit === null || percent === null)
    return (
      <>
        {`${count}, unlimited`}
        {beyond}
      </>
    );
  const isNear = percent >= NEAR_QUOTA_PERCENT;
  return (
    <>
      {`${count} of ${renderCount(limit)}`}
      <Bar percent={Math.min(100, percent)} isNear={isNear} />
      {isNear && <small class="near">{`${percent} % used`}</small>}
      {beyond}
    </>
  );
}

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** A size with three digits, such as `2.41 MB`. */
export function Size({ bytes }: { readonly bytes: number }) {
  const power = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log10(bytes) / 3)));
  return `${(bytes / 1000 ** power).toLocaleString("en-US", { maximumSignificantDigits: 3 })} ${UNITS[power]}`;
}
