import type { Context } from "hono";
import type * as v from "valibot";
import { isRefusal, type Refusal } from "../../../refusal.ts";
import type { AdminEnv } from "../options.ts";
import { type Attempt, type By, type FieldsOf, parseForm, toAttempt } from "./attempt.ts";
import type { Page } from "./page.tsx";
import type { Visit } from "./visit.ts";

export interface Change<Entries extends v.ObjectEntries> {
  /** The name of the action on the page. */
  readonly action: string;
  /** The fields of the form besides the reason. */
  readonly entries: Entries;
  /** The page, where the result is shown. */
  readonly path: string;
  /** Makes the change. A text is the word for what was done, which is otherwise the name of the action. */
  perform(fields: FieldsOf<Entries>, by: By): Promise<string | object>;
  /** Shows the page, with the form that was refused. */
  show(visit: Visit, attempt?: Attempt): Promise<Page | Refusal>;
}

/** Answers the form of an action: leads to the page, whose address says what was done, or shows the form again. */
export async function answerChange<Entries extends v.ObjectEntries>(
  visit: Visit,
  c: Context<AdminEnv>,
  { action, entries, path, perform, show }: Change<Entries>,
): Promise<Page | Response | Refusal> {
  const parsed = parseForm(entries, visit);
  const done = isRefusal(parsed) ? parsed : await perform(parsed.fields, parsed.by);
  if (isRefusal(done)) return await show(visit, toAttempt(action, visit.form, done));
  return c.redirect(`${path}?done=${typeof done === "string" ? done : action}`, 303);
}
