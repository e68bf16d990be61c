/** Checks the fields that a request sent, for the API and for the lists of the console. Unknown fields are refused. */
import * as v from "valibot";
import { type Refusal, refuse, type WrongField } from "../../../base/refusal.ts";
import { whyWrong } from "../../../base/rule.ts";
import { redactKeys } from "../../../base/secrets/mod.ts";
import { type JsonObject, SENT_TWICE } from "../../../wire/mod.ts";

/** A schema of the fields of a query or a body. */
export type Fields =
  | v.ObjectSchema<v.ObjectEntries, undefined>
  | v.StrictObjectSchema<v.ObjectEntries, undefined>;

/** The most wrong fields that one refusal names. */
const MAX_WRONG_FIELDS = 20;
/** Longer than every error, such as the one that names all actions of the audit log. */
const MAX_ERROR_LENGTH = 1_000;

/** Returns the values of the fields. Refuses wrong ones, and names each; `place` is where they stand, such as `query`. */
export function parseSent<Schema extends Fields>(
  schema: Schema,
  sent: unknown,
  place: string,
): v.InferOutput<Schema> | Refusal {
  const parsed = v.safeParse(schema, sent);
  if (parsed.success) return parsed.output;
  const fields = parsed.issues.slice(0, MAX_WRONG_FIELDS).map((issue) => {
    const why = redactKeys(whyWrong(issue).slice(0, MAX_ERROR_LENGTH));
    const field = v.getDotPath(issue);
    return field === null ? { field: place, error: why } : toWrongField(field, why);
  });
  return refuse("INVALID_REQUEST", `The ${place} has fields that are wrong: ${fields[0]?.error}`, { fields });
}

function toWrongField(name: string, why: string): WrongField {
  // A field can have any name, even a key's text.
  const field = redactKeys(name.slice(0, 100));
  return { field, error: `${field} ${why}`, hint: `It ${why}` };
}

/** Returns the parameters by name. Refuses a parameter that is sent twice, because one of its values would be ignored. */
export function toQuery(parameters: URLSearchParams): JsonObject | Refusal {
  const query: Record<string, string> = Object.create(null);
  for (const [name, value] of parameters) {
    if (name in query) {
      const wrong = toWrongField(name, SENT_TWICE);
      return refuse("INVALID_REQUEST", `Cannot read the query: ${wrong.error}`, { fields: [wrong] });
    }
    query[name] = value;
  }
  return query;
}
