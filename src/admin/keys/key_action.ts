/** What the actions of a key share: how a path names a key, and in which states an action is offered. */
import { parseId } from "../../ids.ts";
import type { KeySummary } from "../../keys/mod.ts";
import { isErased } from "../../licensing/mod.ts";
import { type Refusal, refuse } from "../../refusal.ts";
import type { Action, Change } from "../frame/console/action.ts";
import type { Visit } from "../frame/console/visit.ts";

/** A key that a path names. It may not exist. */
export interface NamedKey {
  /** `key_…`. */
  readonly id: string;
}

export type KeyAction = Action<NamedKey, KeySummary>;
export type KeyChange = Change<NamedKey>;

/** Returns the key that the path names; refuses a malformed id. */
export function findNamedKey({ params: { id = "" } }: Visit): NamedKey | Refusal {
  return parseId("key", id) === undefined
    ? refuse("KEY_NOT_FOUND", "Cannot show key: its id must be key_ and 32 hexadecimal digits")
    : { id };
}

/** Returns the UUID of a key whose id is well-formed. */
export function uuidOf({ id }: NamedKey): string {
  return parseId("key", id) ?? "";
}

export const isNotRevoked = ({ state }: KeySummary) => state !== "revoked";
export const isActive = ({ state }: KeySummary) => state === "active";
/** Tells whether the key may stay in use: a key of an erased account may not. */
export const mayStay = (key: KeySummary) => isNotRevoked(key) && !isErased(key);
