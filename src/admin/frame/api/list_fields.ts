/** Schemas for the parameters of lists: texts, which the schema turns into values. */
import * as v from "valibot";
import { TIMESTAMP } from "../../../calendar.ts";
import { type IdKind, idRule } from "../../../ids.ts";
import { ACCOUNT, SEARCH_TEXT } from "../../../licensing/mod.ts";
import { wholeNumber } from "../../../rule.ts";
import { parsedField, ruledField } from "./fields.ts";

export const SEARCH_FIELD = v.pipe(
  ruledField("search", SEARCH_TEXT),
  v.description(
    "Only rows where words of e-mail, name or organization begin like these words, or a key ends with these four " +
      "characters; refused if more than 1,000 accounts match",
  ),
);

/** An account, by its id or its e-mail. */
export const ACCOUNT_FIELD = v.pipe(
  parsedField("account", ACCOUNT),
  v.description("Only rows of the account with this id or e-mail"),
);

/** Returns the schema of an identifier; its value is the UUID. */
export function idField(name: string, kind: IdKind) {
  return parsedField(name, idRule(kind));
}

/** Returns the schema of a whole number. */
export function wholeNumberField(name: string, least: number, most: number) {
  return parsedField(name, wholeNumber(least, most));
}

/** Returns the schema of an instant. */
export function timeField(name: string) {
  return parsedField(name, TIMESTAMP);
}
