/** Schemas for the parameters of lists: texts, which the schema turns into values. */
import * as v from "valibot";
import { parseTimestamp, TIMESTAMP } from "../../../calendar.ts";
import { type IdKind, parseId } from "../../../ids.ts";
import { parseEmail, SEARCH_TEXT } from "../../../licensing/mod.ts";
import { inJsonSchema } from "../../../wire/mod.ts";
import { parsedField, ruledField } from "./fields.ts";

export const SEARCH_FIELD = v.pipe(
  ruledField("search", SEARCH_TEXT),
  v.description(
    "Only rows where words of e-mail, name or organization begin like these words, or a key ends with these four " +
      "characters; refused if more than 1,000 accounts match",
  ),
);

const WRONG_ACCOUNT = "account must be an account's id, usr_ and 32 hexadecimal digits, or its e-mail";

/** An account, by its id or its e-mail. */
export const ACCOUNT_FIELD = v.pipe(
  v.string(WRONG_ACCOUNT),
  v.check((text) => parseId("usr", text) !== undefined || parseEmail(text) !== undefined, WRONG_ACCOUNT),
  inJsonSchema({ maxLength: 254, description: "Only rows of the account with this id or e-mail" }),
);

/** Returns the schema of an identifier; its value is the UUID. */
export function idField(name: string, kind: IdKind) {
  const message = `${name} must be ${kind}_ and 32 hexadecimal digits`;
  return parsedField(message, {
    parse: (text) => parseId(kind, text),
    pattern: `^${kind}_[0-9a-f]{32}$`,
  });
}

/** Returns the schema of a whole number. */
export function wholeNumberField(name: string, least: number, most: number) {
  const message = `${name} must be a whole number from ${least} to ${most}`;
  return parsedField(message, {
    parse: (text) =>
      /^\d{1,15}$/.test(text) && Number(text) >= least && Number(text) <= most ? Number(text) : undefined,
    type: "integer",
    minimum: least,
    maximum: most,
  });
}

/** Returns the schema of an instant. */
export function timeField(name: string) {
  const message = `${name} must be an ISO 8601 time such as 2027-01-31T00:00:00Z`;
  return parsedField(message, {
    parse: parseTimestamp,
    pattern: TIMESTAMP.source,
    examples: ["2027-01-31T00:00:00Z"],
  });
}
