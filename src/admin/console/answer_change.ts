import type { Context } from "hono";
import type { Actor } from "../../audit/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import type { AdminEnv } from "../options.ts";
import { type Attempt, toAttempt } from "./attempt.ts";
import type { Page } from "./page.tsx";
import type { Visit } from "./visit.ts";

interface Change {
  /** The name of the action on the page. */
  readonly action: string;
  /** The page, where the result is shown. */
  readonly path: string;
  /** Makes the change; returns the word for what was done. */
  perform(): Promise<string | Refusal>;
  /** Shows the page with the form that was refused. */
  showAgain(attempt: Attempt): Promise<Page | Refusal>;
}

/** Answers the form of an action: leads to the page, whose address says what was done, or shows the form again. */
export async function answerChange(
  visit: Visit,
  c: Context<AdminEnv>,
  { action, path, perform, showAgain }: Change,
): Promise<Page | Response | Refusal> {
  const done = await perform();
  if (isRefusal(done)) return await showAgain(toAttempt(action, visit.form, done));
  return c.redirect(`${path}?done=${done}`, 303);
}

/** Returns who makes the change, why and when. */
export function changeBy(
  { actor, now }: Visit,
  { reason }: { readonly reason?: string | undefined },
): { readonly actor: Actor; readonly now: Date } {
  return { actor: { ...actor, reason }, now };
}
