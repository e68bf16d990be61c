/** @jsxImportSource hono/jsx */
/** The actions that change the state of one key: suspend, resume, revoke. */

import { resumeKey, revokeKey, suspendKey } from "../../licensing/keys/mod.ts";
import type { Effect, ListedState } from "../../licensing/mod.ts";
import { action } from "../frame/console/action.ts";
import {
  type ActedKey,
  HELP_GROUP,
  isActive,
  isNotRevoked,
  type KeyAction,
  mayStay,
  STOP_GROUP,
  uuidOf,
} from "./key_action.ts";
import { Remains, remainsOf } from "./remains.tsx";

export const suspend: KeyAction = action({
  name: "suspend",
  scope: "keys:manage",
  label: "Suspend",
  group: STOP_GROUP,
  submit: "Suspend the key",
  toMany: true,
  fits: isActive,
  isDone: ({ key }) => key.state === "suspended",
  Form: ({ of, now }) => (
    <>
      <p>The service refuses the key until someone resumes it.</p>
      <Remains of={of} now={now} />
    </>
  ),
  foresee: ({ of }) => stateEffects(of, "suspended", "refused until it is resumed"),
  perform: ({ of, by, visit }) => suspendKey(visit.options.licenseChanges, uuidOf(of), by),
  done: {
    "key.suspend": (of) => `The key is suspended: it is refused from now on. ${remainsOf(of)}`,
  },
});

export const resume: KeyAction = action({
  name: "resume",
  scope: "keys:manage",
  label: "Resume",
  group: HELP_GROUP,
  submit: "Resume the key",
  toMany: true,
  fits: (of) => of.key.state === "suspended" && mayStay(of),
  isDone: ({ key }) => key.state === "active" || key.state === "expired",
  Form: () => <p>The suspension ends. A key that has expired or used up its quota is still refused.</p>,
  foresee: ({ of, by }) => stateEffects(of, of.key.expiresAt > by.now ? "active" : "expired"),
  perform: ({ of, by, visit }) => resumeKey(visit.options.licenseChanges, uuidOf(of), by),
  done: { "key.resume": "The key is resumed." },
});

export const revoke: KeyAction = action({
  name: "revoke",
  scope: "keys:revoke",
  label: "Revoke",
  group: STOP_GROUP,
  submit: "Revoke the key",
  toMany: true,
  fits: isNotRevoked,
  isDone: ({ key }) => key.state === "revoked",
  isFinal: true,
  repeat: { what: "the last four characters", textOf: ({ key }) => key.hint.slice(-4) },
  Form: ({ of, now }) => (
    <>
      <p>
        <b>This cannot be undone.</b> The service refuses the key for good. To refuse it only for a while,
        suspend it.
      </p>
      <Remains of={of} now={now} />
    </>
  ),
  foresee: ({ of }) => stateEffects(of, "revoked", "refused for good"),
  ends: () => 1,
  perform: ({ of, by, visit }) => revokeKey(visit.options.licenseChanges, { uuid: uuidOf(of) }, by),
  done: { "key.revoke": (of) => `The key is revoked for good. ${remainsOf(of)}` },
});

/** Says that the state of a key changes, if it does. */
function stateEffects({ key: { state } }: ActedKey, to: ListedState, loss?: string): Effect[] {
  return state === to ? [] : [{ what: "state", from: state, to, loss }];
}
