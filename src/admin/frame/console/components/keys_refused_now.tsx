/** @jsxImportSource hono/jsx */
import { monthOf } from "../../../../base/calendar.ts";
import { counted } from "../../../../base/render_count.ts";
import { type KeySummary, sentenceOf } from "../../../../licensing/keys/mod.ts";
import { Notice } from "./layout.tsx";
import { KeyLink } from "./values.tsx";

/** How many of the refused keys are named. */
const MOST_NAMED = 10;

interface Props {
  /** What the page is about. */
  readonly of: "account" | "license";
  readonly keys: readonly KeySummary[];
  readonly now: Date;
}

/**
 * Says which keys the service refuses now, and why, in the words of their pages. Keys that were ended for good are not
 * named: their states are in the table.
 */
export function KeysRefusedNow({ of, keys, now }: Props) {
  const refused = keys.filter(
    ({ obstacles: [first] }) => first && first !== "revoked" && first !== "replaced",
  );
  if (refused.length === 0) return null;
  const { resetsAt } = monthOf(now.getTime());
  return (
    <Notice kind="warning">
      <b>{`The service refuses requests with ${counted(refused.length, "key")} of this ${of}.`}</b>
      <ul>
        {refused.slice(0, MOST_NAMED).map((key) => (
          <li>
            <KeyLink id={key.id} text={key.hint} />
            {`: ${key.obstacles.map((obstacle) => sentenceOf(obstacle, key, resetsAt)).join(" ")}`}
          </li>
        ))}
      </ul>
    </Notice>
  );
}
