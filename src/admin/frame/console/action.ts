/**
 * An action of the console is one record: who may use it, when a page offers it, its form, the change, and what the page
 * says afterwards. The route, the buttons and the answer come from the record.
 */

import type { Context } from "hono";
import type { Child } from "hono/jsx";
import type * as v from "valibot";
import type { By } from "../../../audit/mod.ts";
import { refuseOldProof } from "../../../operators/mod.ts";
import { isRefusal, type Refusal } from "../../../refusal.ts";
import type { AdminEnv } from "../options.ts";
import { repeatEntry } from "./form_fields.ts";
import type { Need } from "./may.ts";
import type { Page } from "./page.tsx";
import { type FieldsOf, parseForm } from "./parse_form.ts";
import type { fieldsOf, RefusedForm } from "./refused_form.ts";
import { type ConsoleRoute, form, page } from "./route.ts";
import type { Visit } from "./visit.ts";

/** What pages need to know of an action. `Target` is what the path names; `Shown` is what the page shows of it. */
interface Described<Target, Shown extends Target> {
  /** The last part of its path, such as `suspend`. */
  readonly name: string;
  readonly scope: Need;
  /** The text that opens the form, such as `Suspend`. */
  readonly label: string;
  /** The button that makes the change, such as `Suspend the key`. */
  readonly submit: string;
  /** The text that people must type, so that nobody makes a final change by mistake; `what` names it. */
  readonly repeat?: { readonly what: string; textOf(of: Target): string };
  /** The change cannot be undone. */
  readonly isFinal?: true;
  /** The change gives lasting access, so it needs a fresh proof of who the operator is. */
  readonly needsFreshProof?: true;
  /** The answer is a file, so the page stays. */
  readonly isDownload?: true;
  /**
   * The sentence of the page after the change. If there are several, each has the word that `perform` returns for it.
   * Undefined if the answer is not the page.
   */
  readonly done?: string | Readonly<Record<string, string>>;
  /** Tells whether the state allows the action; by default every state does. */
  fits?(of: Shown): boolean;
  /** Describes the change, and has its fields besides `repeat` and the reason. */
  Form(props: FormProps<Shown>): Child;
}

export interface FormProps<Shown> {
  readonly of: Shown;
  readonly field: ReturnType<typeof fieldsOf>;
  readonly now: Date;
}

/**
 * What `perform` returns. A page or a response is the answer. A text is the word of a sentence in `done`. Any other
 * value says only that the change was made.
 */
type Result = Page | Response | string | object | undefined | Refusal;

export interface Specification<Target, Shown extends Target, Entries extends v.ObjectEntries>
  extends Described<Target, Shown> {
  /** The fields of the form besides `repeat` and the reason. */
  readonly entries: Entries;
  /** Makes the change, or refuses it. */
  perform(change: Change<Target> & { readonly fields: FieldsOf<Entries> }): Promise<Result>;
}

export interface Change<Target> {
  readonly of: Target;
  readonly by: By;
  readonly visit: Visit;
}

export interface Action<Target, Shown extends Target> extends Described<Target, Shown> {
  /** Checks the proof if the change needs a fresh one, checks the form, and makes the change. */
  carryOut(of: Target, visit: Visit): Promise<Result>;
}

/** Defines an action. */
export function action<Target, Shown extends Target, Entries extends v.ObjectEntries>({
  entries,
  perform,
  ...described
}: Specification<Target, Shown, Entries>): Action<Target, Shown> {
  const { repeat, needsFreshProof } = described;
  return {
    ...described,
    async carryOut(of, visit) {
      const refusal = needsFreshProof && refuseOldProof(visit.session, visit.now);
      if (refusal) return refusal;
      const parsed = parseForm({ ...entries, ...(repeat && repeatEntry(repeat.textOf(of))) }, visit);
      if (isRefusal(parsed)) return parsed;
      // The compiler cannot tell that these are the fields of `entries`.
      return await perform({ of, fields: parsed.fields as FieldsOf<Entries>, by: parsed.by, visit });
    },
  };
}

/** A page with actions. */
export interface ActionPage<Target, Shown extends Target> {
  /** As Hono writes paths: `/keys/:id`. */
  readonly path: string;
  /** The address of the page of a target, below `/console`. */
  addressOf(of: Target): string;
  /** Returns the address to which a change leads, if it is not that of the page. */
  addressAfter?(of: Target, visit: Visit): string | undefined;
  readonly actions: readonly Action<Target, Shown>[];
  /** Finds what the path of a form names. */
  find(visit: Visit): Target | Refusal | Promise<Target | Refusal>;
  /** Shows the page. After a form was refused, it is open and says why. */
  show(of: Target, visit: Visit, refused?: RefusedForm): Promise<Page | Refusal>;
}

/** Returns the routes of a page and of its actions. */
export function actionRoutes<Target, Shown extends Target>(
  of: ActionPage<Target, Shown>,
  scope: Need,
): readonly ConsoleRoute[] {
  return [
    page(of.path, scope, (visit) => open(of, visit)),
    ...of.actions.map((action) =>
      form(`${of.path}/${action.name}`, action.scope, (visit, c) => answer(action, of, { visit, c })),
    ),
  ];
}

/** Finds what the path names, and shows it. */
async function open<Target, Shown extends Target>(
  { find, show }: ActionPage<Target, Shown>,
  visit: Visit,
  refused?: RefusedForm,
): Promise<Page | Refusal> {
  const of = await find(visit);
  return isRefusal(of) ? of : await show(of, visit, refused);
}

async function answer<Target, Shown extends Target>(
  { name, carryOut }: Action<Target, Shown>,
  page: ActionPage<Target, Shown>,
  { visit, c }: { readonly visit: Visit; readonly c: Context<AdminEnv> },
): Promise<Page | Response | Refusal> {
  const of = await page.find(visit);
  if (isRefusal(of)) return of;
  const result = await carryOut(of, visit);
  if (isRefusal(result)) {
    const shown = await open(page, visit, { action: name, form: visit.form, refusal: result });
    return isRefusal(shown) ? shown : { ...shown, code: result.code };
  }
  if (result instanceof Response) return result;
  if (typeof result === "object" && "body" in result) return result as Page;
  const address = page.addressAfter?.(of, visit) ?? page.addressOf(of);
  return c.redirect(`/console${address}?done=${typeof result === "string" ? result : name}`, 303);
}

/** Tells whether the page offers an action: the role and the state allow it. */
export function isOffered<Target, Shown extends Target>(
  { scope, fits }: Action<Target, Shown>,
  { of, visit }: { readonly of: Shown; readonly visit: Visit },
): boolean {
  return visit.may(scope) && (fits?.(of) ?? true);
}
