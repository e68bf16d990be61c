/** @jsxImportSource hono/jsx */
/** From a count of refusals to the keys that were refused. */

import { HOUR_MS } from "../../base/calendar.ts";
import type { Code, KeyFlaw } from "../../base/refusal.ts";
import type { Database } from "../../database/mod.ts";
import { findMostRefused, type RefusedKey } from "../../licensing/keys/mod.ts";
import type { Reading } from "../../licensing/mod.ts";
import type { Unusual } from "../../usage/activity/mod.ts";
import { AccountLink, KeyLink } from "../frame/console/components/values.tsx";

export const TOO_MANY = "RATE_LIMIT_EXCEEDED" satisfies Code;

/** An hour with many refusals by a code. */
export type HourOfCode = Pick<Unusual, "at" | "name" | "count" | "kind">;

/** The keys that had most of the refusals of each hour. They are known only for the code {@linkcode TOO_MANY}. */
export type KeysOfHours = ReadonlyMap<HourOfCode, readonly RefusedKey[]>;

/** Finds these keys for the hours with too many refusals of that code. */
export async function findKeysOfHours(
  database: Database,
  all: readonly HourOfCode[],
  reading: Reading,
): Promise<KeysOfHours> {
  const hours = all.filter(({ name, kind }) => name === TOO_MANY && kind === "high");
  const times = hours.map(({ at, count }) => ({ from: at, to: new Date(at.getTime() + HOUR_MS), count }));
  const found = await findMostRefused(database, times, reading);
  return new Map(hours.map((hour, index) => [hour, found[index] ?? []]));
}

/** For each cause the list that has the refused keys, and the words of its link. */
const LISTS: Readonly<Partial<Record<Code | KeyFlaw, readonly [path: string, words: string]>>> = {
  [TOO_MANY]: ["keys?refused_now=true", "Keys refused now"],
  QUOTA_EXCEEDED: ["keys?refused_now=true", "Keys refused now"],
  KEY_EXPIRED: ["keys?state=expired", "Expired keys"],
  MACHINE_LIMIT_REACHED: ["keys?all_places_taken=true", "Keys with all places taken"],
  INVALID_KEY: ["activity?by=reason", "Activity by reason"],
  expired: ["keys?state=expired", "Expired keys"],
  suspended: ["keys?state=suspended", "Suspended keys"],
  revoked: ["keys?state=revoked", "Revoked keys"],
};

interface RefusedKeysProps extends Pick<Unusual, "name" | "count"> {
  readonly keys?: readonly RefusedKey[] | undefined;
}

/** The keys with the most refusals by a code or a reason, or else the list that has them; nothing if there is none. */
export function RefusedKeys({ name, count, keys = [] }: RefusedKeysProps) {
  const [path, words] = LISTS[name as Code] ?? [];
  if (keys.length === 0)
    return (
      path && (
        <small>
          <a href={`/console/${path}`}>{words}</a>
        </small>
      )
    );
  return (
    <>
      {keys.map(({ key, refused }, index) => (
        <small>
          {index === 0 ? "most by " : "then "}
          <KeyLink id={key.id} text={key.hint} /> of <AccountLink id={key.userId} email={key.email} />
          {` (${Math.min(100, Math.round((refused * 100) / count))} %)`}
        </small>
      ))}
    </>
  );
}
