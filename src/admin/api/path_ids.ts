/** Reads the identifiers in paths. An identifier that cannot exist is refused like one that does not exist. */
import { parseId } from "../../ids.ts";
import { type Refusal, refuse } from "../../refusal.ts";
import type { Call } from "./operation.ts";

/** Returns the UUID of the key in the path. `what` is the action that the refusal of an unknown key names. */
export function keyUuidOf({ params }: Call, what: string): string | Refusal {
  return (
    parseId("key", params.id ?? "") ??
    refuse("KEY_NOT_FOUND", `Cannot ${what}: the path must hold a key's id, key_ and 32 hexadecimal digits`)
  );
}

/** Returns the UUID of the license in the path. */
export function licenseUuidOf({ params }: Call, what: string): string | Refusal {
  return (
    parseId("lic", params.id ?? "") ??
    refuse("NOT_FOUND", `Cannot ${what}: the path must hold a license's id, lic_ and 32 hexadecimal digits`)
  );
}

/** Returns the UUID of the account in the path. */
export function accountUuidOf({ params }: Call, what: string): string | Refusal {
  return (
    parseId("usr", params.id ?? "") ??
    refuse("NOT_FOUND", `Cannot ${what}: the path must hold an account's id, usr_ and 32 hexadecimal digits`)
  );
}

/** Returns the name and the version of a model in the path; without a version in the path it is empty. */
export function modelOf(
  { params: { name = "", version = "" } }: Call,
  what: string,
): { readonly name: string; readonly version: string } | Refusal {
  return [name, version].every((text) => /^[\w.+-]{0,200}$/.test(text))
    ? { name, version }
    : refuse("NOT_FOUND", `Cannot ${what}: no model has the name or version in the path`);
}
