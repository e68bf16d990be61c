/** What the actions of a key share: how they name the key, and in which states they are offered. */
import { parseId } from "../../ids.ts";
import type { KeyExplanation } from "../../keys/mod.ts";
import { isErased } from "../../licensing/mod.ts";
import type { Action } from "../frame/console/action.ts";

/** What the actions need of a key, so that they can be done to rows of a list, too. */
export type ActedKey = Pick<KeyExplanation, "key">;
export type KeyAction = Action<ActedKey>;

/** The titles of the groups of actions. */
export const HELP = "Help the customer";
export const CHANGE = "Change the license";
export const STOP = "Stop the key";

/** Returns the UUID of the key. */
export function uuidOf({ key: { id } }: ActedKey): string {
  return parseId("key", id) ?? "";
}

export const isNotRevoked = ({ key: { state } }: ActedKey) => state !== "revoked";
export const isActive = ({ key: { state } }: ActedKey) => state === "active";
/** Tells whether the key may stay in use: a key of an erased account may not. */
export const mayStay = (of: ActedKey) => isNotRevoked(of) && !isErased(of.key);
