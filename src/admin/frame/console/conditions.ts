/**
 * The conditions of a list or a download, as its address has them. The rules are those of the API: a condition that
 * cannot be read, an unknown name, and a name that is sent twice are refused, and nothing is shown instead. The page keeps
 * the texts, so that people can correct them.
 */
import * as v from "valibot";
import { isRefusal, type Refusal, refuse } from "../../../base/refusal.ts";
import { redactKeys } from "../../../base/secrets/mod.ts";
import { parseSent, toQuery } from "../api/parse_sent.ts";
import type { FieldsOf } from "./form_fields.ts";
import { hintOf, MOST_ENTERED } from "./refused_form.ts";

export interface Asked<Entries extends v.ObjectEntries> {
  /** The texts of the conditions as they were entered, without empty ones, and without the place of the page. */
  readonly entered: Readonly<Record<string, string>>;
  /** What they mean, or the refusal, which names each wrong field. */
  readonly values: FieldsOf<Entries> | Refusal;
}

/** Reads the conditions of an address. An empty text is no condition; a text longer than any field is wrong in every field. */
export function readConditions<const Entries extends v.ObjectEntries>(
  query: URLSearchParams,
  entries: Entries,
): Asked<Entries> {
  const given = [...query].flatMap(([name, text]): [string, string][] => {
    const shown = text.trim().slice(0, MOST_ENTERED);
    return shown === "" ? [] : [[name, shown]];
  });
  const sent = toQuery(new URLSearchParams(given));
  const read = isRefusal(sent) ? sent : parseSent(v.strictObject(entries), sent, "address");
  const { after, before, ...entered } = Object.fromEntries(given.filter(([name]) => name in entries));
  if (!isRefusal(read)) return { entered, values: read };
  const { code, fields = [] } = read;
  const why = fields.map(({ field, error }) => error.replace(field, toWords(field))).join("; ");
  return { entered, values: refuse(code, `Nothing is shown: ${why}`, { fields }) };
}

/** Names the conditions in words, each with its text: `expiring within`, `90`. The order of a list is no condition. */
export function nameConditions(entered: Asked<v.ObjectEntries>["entered"]) {
  return Object.entries(entered).flatMap(([name, text]) =>
    name === "sort" ? [] : [[toWords(name), text] as const],
  );
}

/** Says in words which rows of a list meet the conditions: `all with tier: free, expiring within: 90`. */
export function describeAll(
  conditions: string,
  { entries, noun }: { readonly entries: v.ObjectEntries; readonly noun: string },
): string {
  const { entered } = readConditions(new URLSearchParams(conditions), entries);
  const described = nameConditions(entered).map(([words, text]) =>
    text === "true" ? words : `${words}: ${redactKeys(text)}`,
  );
  return described.length === 0 ? `all ${noun}s` : `all with ${described.join(", ")}`;
}

const toWords = (name: string) => name.replaceAll("_", " ");

/** Returns the name, the text and the error of a condition, for its field in the form. */
export function fieldOf({ entered, values }: Asked<v.ObjectEntries>, name: string) {
  return {
    name,
    value: redactKeys(entered[name] ?? ""),
    error: isRefusal(values) ? hintOf(values, name) : undefined,
  };
}
