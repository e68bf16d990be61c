/** What the readers of a report share: how they refuse a value, and the values that occur in several places. */
import { INSTANT } from "../../base/calendar.ts";
import type { JsonObject } from "../../wire/mod.ts";

/** Thrown by the readers of a report alone: why it is refused. */
export class Wrong extends Error {}

export function fail(why: string): never {
  throw new Wrong(why);
}

export function demandFields(
  fields: JsonObject,
  known: readonly string[],
  { optional, of = "" }: { readonly optional?: string; readonly of?: string } = {},
): void {
  for (const name of known) if (!Object.hasOwn(fields, name)) fail(`${of}${name} is required`);
  const unknown = Object.keys(fields).some((name) => !known.includes(name) && name !== optional);
  if (unknown) fail(`${of === "" ? "the report" : of.slice(0, -1)} has a field that is not known`);
}

/** Tells whether a value is a whole number that JSON has exactly. */
export function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Longer texts are no time. */
const MOST_TIME_CHARACTERS = 40;

export function readInstant(value: unknown, name: string): Date {
  const at =
    typeof value === "string" && value.length <= MOST_TIME_CHARACTERS ? INSTANT.parse(value) : undefined;
  return at ?? fail(`${name} must be ${INSTANT.expects}`);
}
