/** Reads the identifiers in paths. An identifier that cannot exist is refused like one that does not exist. */
import { type IdKind, parseId } from "../../../ids.ts";
import { type Refusal, refuse } from "../../../refusal.ts";
import type { Params } from "./operation.ts";

/** Reads the UUID of the key in the path. `what` is the action that the refusal of an unknown key names. */
export const keyFor = idIn("key", { holder: "a key", code: "KEY_NOT_FOUND" });
/** Reads the UUID of the license in the path. */
export const licenseFor = idIn("lic", { holder: "a license", code: "NOT_FOUND" });
/** Reads the UUID of the account in the path. */
export const accountFor = idIn("usr", { holder: "an account", code: "NOT_FOUND" });

function idIn(
  kind: IdKind,
  { holder, code }: { readonly holder: string; readonly code: "KEY_NOT_FOUND" | "NOT_FOUND" },
) {
  const why = `the path must hold ${holder}'s id, ${kind}_ and 32 hexadecimal digits`;
  return (what: string) =>
    ({ id = "" }: Params): { readonly what: string; readonly uuid: string } | Refusal => {
      const uuid = parseId(kind, id);
      return uuid === undefined ? refuse(code, `Cannot ${what}: ${why}`) : { what, uuid };
    };
}

/** Reads the name and the version of a model in the path; without a version in the path it is empty. */
export function modelFor(what: string) {
  return ({
    name = "",
    version = "",
  }: Params): { readonly name: string; readonly version: string } | Refusal =>
    [name, version].every((text) => /^[\w.+-]{0,200}$/.test(text))
      ? { name, version }
      : refuse("NOT_FOUND", `Cannot ${what}: no model has the name or version in the path`);
}
