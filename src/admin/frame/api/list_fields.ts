/** Schemas for the parameters of lists: texts, which the schema turns into values. */
import * as v from "valibot";
import { ACCOUNT, SEARCH_TEXT } from "../../../licensing/mod.ts";
import { parsedField } from "../../../rule.ts";

export const SEARCH_FIELD = v.pipe(
  parsedField(SEARCH_TEXT),
  v.description(
    "Only rows where words of e-mail, name or organization begin like these words, or a key ends with these four " +
      "characters; refused if more than 1,000 accounts match",
  ),
);

/** An account, by its id or its e-mail. */
export const ACCOUNT_FIELD = v.pipe(
  parsedField(ACCOUNT),
  v.description("Only rows of the account with this id or e-mail"),
);
