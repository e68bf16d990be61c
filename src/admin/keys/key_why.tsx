/** @jsxImportSource hono/jsx */
/** Why a key works or does not, with a way out of each obstacle. */
import type { Child } from "hono/jsx";
import { describeActor } from "../../audit/mod.ts";
import { toDay } from "../../base/calendar.ts";
import { type KeyExplanation, type Obstacle, sentenceOf } from "../../licensing/keys/mod.ts";
import { describeTerm, isWaiting } from "../../licensing/mod.ts";
import { isOffered } from "../frame/console/action.ts";
import { Notice } from "../frame/console/components/layout.tsx";
import { Ago, daysUntil, Foreign } from "../frame/console/components/values.tsx";
import { toOpenForm } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";
import type { KeyAction } from "./key_action.ts";
import { changeLimit, renew } from "./license_actions.tsx";
import { replace } from "./rotate.tsx";
import { resume } from "./state_actions.tsx";

interface WhyProps {
  readonly explanation: KeyExplanation;
  readonly visit: Visit;
}

/**
 * Says what the last change has done, and whether the service accepts the key now; otherwise all reasons why not, and
 * what to do about each.
 */
export function Why({ explanation, visit, done }: WhyProps & { readonly done: Child }) {
  const { obstacles, overlapsSince, expiresAt, runsOutOn } = explanation.key;
  if (obstacles.length === 0 && overlapsSince === null) {
    return (
      <Notice kind={done === undefined ? "good" : "done"}>
        {done !== undefined && <p>{done}</p>}
        The key works: it is active, and the quota of its license is not used up.
        {isWaiting(explanation.key, visit.now) &&
          ` Its license waits for its first use: ${describeTerm(explanation.key)}.`}
        {runsOutOn && ` At this rate it runs out on ${runsOutOn}, ${daysUntil(runsOutOn, visit.now)}.`}
        {/* After a change, its reason would look like that of the change. */}
        {done === undefined && explanation.since !== null && (
          <p class="since">
            <Since explanation={explanation} visit={visit} />
          </p>
        )}
      </Notice>
    );
  }
  return (
    <>
      <Notice kind="done">{done}</Notice>
      <Notice kind="warning">
        <b>{renderVerdict(obstacles)}</b>
        <ul>
          {overlapsSince && (
            <li>
              {`Rotated on ${toDay(overlapsSince)}: this key ends on ${toDay(expiresAt)}. `}
              <WayOut explanation={explanation} obstacle="replaced" visit={visit} />
            </li>
          )}
          {obstacles.map((obstacle) => (
            <li>
              {obstacle === explanation.key.state && explanation.since !== null ? (
                <Since explanation={explanation} visit={visit} />
              ) : (
                sentenceOf(obstacle, explanation.key, explanation.resetsAt)
              )}{" "}
              <WayOut explanation={explanation} obstacle={obstacle} visit={visit} />
            </li>
          ))}
        </ul>
      </Notice>
    </>
  );
}

function renderVerdict([first]: readonly Obstacle[]): string {
  if (first === undefined) return "The key works until its overlap ends.";
  return first === "too_many_requests"
    ? "The service refuses some requests with this key."
    : "The service refuses this key.";
}

/** Says since when the key has its state, and who changed the state. */
function Since({ explanation: { key, since, change }, visit: { now } }: WhyProps) {
  if (since === null) return null;
  return (
    <>
      {`It has been ${key.state} since`} <Ago at={since} now={now} />
      {change && " by "}
      {change && <Foreign text={describeActor(change.actor)} />}
      {change?.reason && "; reason: "}
      {change?.reason && <Foreign text={change.reason} />}.
    </>
  );
}

/** The action that ends an obstacle. */
const REMEDIES: Readonly<Partial<Record<Obstacle, readonly [action: KeyAction, label: string]>>> = {
  revoked: [replace, "Replace the key"],
  suspended: [resume, "Resume it"],
  expired: [renew, "Renew the license"],
  quota_used_up: [changeLimit, "Change the limit"],
};

function WayOut({ explanation, obstacle, visit }: WhyProps & { readonly obstacle: Obstacle }): Child {
  const { key } = explanation;
  const [action, label] = REMEDIES[obstacle] ?? [];
  if (action !== undefined && isOffered(action, { of: explanation, visit }))
    return <a href={toOpenForm(`/console/keys/${key.id}`, action.name)}>{label}</a>;
  const isEnded = obstacle === "revoked" || obstacle === "replaced";
  if (!isEnded || key.replacedBy === null) return null;
  return <a href={`/console/keys/${key.replacedBy}`}>Show the key that replaced it</a>;
}
