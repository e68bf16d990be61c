/**
 * An action of the console is one record: who may use it, when a page offers it, its form, whether it can be done to
 * many things at once, the change, and what the page says afterwards. `detail_page.tsx` makes the route, the button and
 * the answer from the record.
 */
import type { Child } from "hono/jsx";
import type * as v from "valibot";
import type { AuditAction, By } from "../../../audit/mod.ts";
import { isRefusal, type Refusal } from "../../../base/refusal.ts";
import type { Effect } from "../../../licensing/mod.ts";
import { noteEndings, refuseOldProof } from "../../../operators/mod.ts";
import { type FieldsOf, NEEDED_REASON_ENTRY, parseForm, repeatEntry } from "./form_fields.ts";
import type { Need } from "./may.ts";
import type { Page } from "./page.tsx";
import type { fieldsOf } from "./refused_form.ts";
import { ORIGIN } from "./route.ts";
import type { Visit } from "./visit.ts";

/** What pages need to know of an action; `Thing` is what the page shows. */
interface Described<Thing> {
  /** The last part of its path, such as `suspend`. */
  readonly name: string;
  readonly scope: Need;
  /** The text that opens the form, such as `Suspend`. */
  readonly label: string;
  /** The title above the actions with the same one, which stand together. */
  readonly group?: string;
  /** The button that makes the change, such as `Suspend the key`. */
  readonly submit: string | ((of: Thing) => string);
  /** The text that people must type, so that nobody makes a final change by mistake; `what` names it. */
  readonly repeat?: { readonly what: string; textOf(of: Thing): string };
  /** Few people need it: a link opens the page with its form, which the page does not send before. */
  readonly isRare?: true;
  /** The change cannot be undone. */
  readonly isFinal?: true;
  /** Every change needs a fresh proof of who the operator is, because it gives lasting access or cannot be undone. */
  readonly needsFreshProof?: true;
  /** The form does not go without a reason. */
  readonly needsReason?: true;
  /**
   * It can be done to many things at once: one form, sent for each of them, does the same to each. Of its fields only
   * `repeat` has another text for each thing.
   */
  readonly toMany?: true;
  /** What the change is made to, if that is not the thing itself but something that several things share. */
  readonly shared?: { readonly one: string; idOf(of: Thing): string };
  /** The answer is a file, so the page stays. */
  readonly isDownload?: true;
  /**
   * What the page says after the change, beside the values before and after, by the action of the audit log. Undefined if
   * the answer is not the page.
   */
  readonly done?: Readonly<Partial<Record<AuditAction, Sentence<Thing>>>>;
  /** The addresses of the pages on which it can begin, besides its own: Cancel and the change lead back there, and they say it. */
  originsOf?(of: Thing): readonly string[];
  /** The name of the action to which the sentence about the change has a link. */
  readonly leadsTo?: string;
  /** Tells whether the state allows the action; by default every state does. */
  fits?(of: Thing): boolean;
  /** Tells whether the thing is already as the action makes it, if its state alone shows that. */
  isDone?(of: Thing): boolean;
  /** Describes the change, and has its fields besides `repeat` and the reason. */
  Form(props: FormProps<Thing>): Child;
}

/**
 * A sentence about a change; a function gets the thing as it is now, and the values that the change noted. A function that
 * returns markup and no text says the whole change, so the values do not stand beside it.
 */
export type Sentence<Thing> = string | ((of: Thing, after: unknown) => Child | Promise<Child>);

export interface FormProps<Thing> {
  readonly of: Thing;
  readonly field: ReturnType<typeof fieldsOf>;
  readonly now: Date;
  /** The form is for many things, and `of` is only the first. */
  readonly isMany?: true;
}

/**
 * What `perform` returns. A page or a response is the answer. Any other value says only that the change was made, or
 * with a false `isChanged` that the thing had these values already.
 */
type Result = Page | Response | object | undefined | Refusal;

interface Specification<Thing, Entries extends v.ObjectEntries> extends Described<Thing> {
  /** The fields of the form besides `repeat` and the reason; by default there are none. */
  readonly entries?: Entries;
  /** Says what only a fresh proof allows of the change that the form asks for; undefined if it needs none. */
  proofFor?(change: Change<Thing> & { readonly fields: FieldsOf<Entries> }): string | undefined;
  /** Returns how many keys or places of machines the change ends: beyond a few within an hour they need a fresh proof. */
  ends?(change: Change<Thing> & { readonly fields: FieldsOf<Entries> }): number;
  /** Says what the change would do, none if the thing is so already, or refuses it. Changes nothing. */
  foresee?(change: Change<Thing> & { readonly fields: FieldsOf<Entries> }): readonly Effect[] | Refusal;
  /** Makes the change, or refuses it. */
  perform(change: Change<Thing> & { readonly fields: FieldsOf<Entries> }): Promise<Result>;
}

export interface Change<Thing> {
  readonly of: Thing;
  readonly by: By;
  readonly visit: Visit;
}

export interface Action<Thing> extends Described<Thing> {
  /** Checks the proof if the change needs a fresh one, checks the form, and makes the change. */
  carryOut(of: Thing, visit: Visit): Promise<Result>;
  /** Checks the form, and says what the change would do. */
  foresee(of: Thing, visit: Visit): readonly Effect[] | Refusal;
  /** Checks the form, and returns how many keys or places the change would end; 0 for a wrong form. */
  ends(of: Thing, visit: Visit): number;
}

/** Defines an action. */
export function action<Thing, Entries extends v.ObjectEntries>({
  entries,
  proofFor = () => undefined,
  ends = () => 0,
  perform,
  foresee = () => [],
  ...described
}: Specification<Thing, Entries>): Action<Thing> {
  const { repeat, needsFreshProof, needsReason } = described;
  function parse(of: Thing, visit: Visit) {
    const more = { ...(repeat && repeatEntry(repeat.textOf(of))), ...(needsReason && NEEDED_REASON_ENTRY) };
    const parsed = parseForm({ ...entries, ...more }, visit);
    // The compiler cannot tell that these are the fields of `entries`.
    return isRefusal(parsed)
      ? parsed
      : { of, fields: parsed.fields as FieldsOf<Entries>, by: parsed.by, visit };
  }
  return {
    ...described,
    async carryOut(of, visit) {
      const refusal = needsFreshProof && refuseOldProof(visit.session, visit.now);
      if (refusal) return refusal;
      const change = parse(of, visit);
      if (isRefusal(change)) return change;
      return (await refuseWithoutProof(visit, proofFor(change), ends(change))) ?? (await perform(change));
    },
    foresee(of, visit) {
      const change = parse(of, visit);
      if (isRefusal(change)) return change;
      const what = proofFor(change);
      return (what && refuseOldProof(visit.session, visit.now, what)) || foresee(change);
    },
    ends(of, visit) {
      const change = parse(of, visit);
      return isRefusal(change) ? 0 : ends(change);
    },
  };
}

/** Refuses a change that needs a fresh proof which the session does not have; notes what it ends. */
async function refuseWithoutProof(
  { session, now, options }: Visit,
  what: string | undefined,
  ends: number,
): Promise<Refusal | undefined> {
  const refusal = what && refuseOldProof(session, now, what);
  if (refusal || ends === 0) return refusal || undefined;
  return await noteEndings(options.database, session, { ends, now });
}

/** Returns the address of the page on which an action began, if the request names one on which it can begin. */
export function originOf<Thing>(
  { originsOf }: Pick<Action<Thing>, "originsOf">,
  { of, visit: { query, form } }: Pick<Change<Thing>, "of" | "visit">,
): string | undefined {
  const named = form.get(ORIGIN) ?? query.get(ORIGIN);
  return originsOf?.(of).find((address) => address === named);
}

/** Tells whether the page offers an action: the role and the state allow it. */
export function isOffered<Thing>(
  { scope, fits }: Action<Thing>,
  { of, visit }: Pick<Change<Thing>, "of" | "visit">,
): boolean {
  return visit.may(scope) && (fits?.(of) ?? true);
}
