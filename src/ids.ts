/**
 * Identifiers as people and clients see them: a short word for the kind and a UUIDv7 (RFC 9562) as 32
 * hexadecimal digits, `usr_019a…`. In the database the same identifier is a plain `uuid`.
 */
import { v7 } from "uuid";

export type IdKind = "usr" | "lic" | "key" | "evt" | "req" | "mdl";

/** Makes a new UUIDv7 in its canonical form; identifiers made later sort later. */
export function newUuid(): string {
  return v7();
}

/** Renders a UUID from the database as the identifier of that kind. */
export function toId(kind: IdKind, uuid: string): string {
  return `${kind}_${uuid.replaceAll("-", "")}`;
}

/** Reads an identifier of that kind back into a UUID; undefined when it is anything else. */
export function parseId(kind: IdKind, text: string): string | undefined {
  const match = ID.exec(text);
  if (match === null || match[1] !== kind) return undefined;
  return match.slice(2).join("-");
}

const ID = /^([a-z]{3})_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/;
