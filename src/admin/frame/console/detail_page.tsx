/** @jsxImportSource hono/jsx */
/**
 * The page of one thing is one record: how its path names the thing, what it shows, and its actions. The routes of the
 * page and of its actions, and the answers to their forms, come from the record.
 */
import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { isRefusal, type Refusal } from "../../../base/refusal.ts";
import type { AdminEnv } from "../options.ts";
import { type Action, originOf } from "./action.ts";
import type { Script } from "./assets.ts";
import { Actions, LastRefusal } from "./components/action.tsx";
import { Notice } from "./components/layout.tsx";
import { TEXT } from "./form_fields.ts";
import { describeLastChange } from "./last_change.tsx";
import type { Need } from "./may.ts";
import type { Page } from "./page.tsx";
import type { RefusedForm } from "./refused_form.ts";
import { type ConsoleRoute, DONE, form, OPEN, ORIGIN, page, showDone } from "./route.ts";
import type { Visit } from "./visit.ts";

export interface DetailPage<Thing> {
  /** As Hono writes paths: `/keys/:id`. */
  readonly path: string;
  readonly scope: Need;
  /** The address of the page of a thing, below `/console`. */
  addressOf(of: Thing): string;
  /** Returns the address to which a change leads, if it is not that of the page. */
  addressAfter?(of: Thing, visit: Visit): string | undefined;
  readonly actions: readonly Action<Thing>[];
  /** What the page says after a change that began on it and was made on another page, by the action of the audit log. */
  readonly doneElsewhere?: Action<Thing>["done"];
  /** Finds what the path names. */
  find(visit: Visit): Promise<Thing | Refusal>;
  show(of: Thing, visit: Visit): Detail | Promise<Detail | Refusal>;
}

/** What the page shows of a thing, besides its actions. */
export interface Detail extends Omit<Page, "body" | "code"> {
  /** What stands between the title and the actions. A function includes what the last change has done. */
  readonly above?: Child | ((done: Child) => Child);
  readonly below: Child;
  /** What the title of an open form calls the thing, because the title of the page may be out of sight. */
  readonly name?: string;
}

/** The fields that the address of every such page can have. */
export const DETAIL_ENTRIES = { [DONE]: TEXT, [OPEN]: TEXT, [ORIGIN]: TEXT } as const;

/** Returns the routes of a page and of its actions. */
export function detailRoutes<Thing>(of: DetailPage<Thing>): readonly [ConsoleRoute, ...ConsoleRoute[]] {
  return [
    page(of.path, of.scope, (visit) => openPage(of, visit)),
    ...of.actions.map((action) =>
      form(`${of.path}/${action.name}`, action.scope, (visit, c) => answer(action, of, { visit, c })),
    ),
  ];
}

const SAME = "Nothing changed: the values were the same already.";

/** Finds what the path names, and shows it with what this request has `done`. A refused form is open and says why. */
export async function openPage<Thing>(
  page: DetailPage<Thing>,
  visit: Visit,
  { refused, ...after }: { readonly refused?: RefusedForm; readonly done?: Child } = {},
): Promise<Page | Refusal> {
  const { actions, doneElsewhere } = page;
  const of = await page.find(visit);
  if (isRefusal(of)) return of;
  const detail = await page.show(of, visit);
  if (isRefusal(detail)) return detail;
  const { above, below, name, ...shownAs } = detail;
  const done = after.done ?? (await describeLastChange(actions, { of, visit, doneElsewhere }));
  const shown = { actions, address: page.addressOf(of), of, name, visit, refused };
  return {
    ...shownAs,
    script: [...new Set<Script>(["action", "copy", ...[shownAs.script ?? []].flat()])],
    ...(refused && { code: refused.refusal.code }),
    body: (
      <>
        <LastRefusal {...shown} />
        {typeof above === "function" ? above(done) : [<Notice kind="done">{done}</Notice>, above]}
        <Actions {...shown} />
        {below}
      </>
    ),
  };
}

async function answer<Thing>(
  action: Action<Thing>,
  page: DetailPage<Thing>,
  { visit, c }: { readonly visit: Visit; readonly c: Context<AdminEnv> },
): Promise<Page | Response | Refusal> {
  const of = await page.find(visit);
  if (isRefusal(of)) return of;
  const result = await action.carryOut(of, visit);
  if (isRefusal(result))
    return await openPage(page, visit, {
      refused: { action: action.name, form: visit.form, refusal: result },
    });
  if (result instanceof Response) return result;
  if (typeof result === "object" && "body" in result) return result as Page;
  // An address that says so could be made for any change. So the answer itself says it, without a redirect.
  if (typeof result === "object" && "isChanged" in result && result.isChanged === false)
    return await openPage(page, visit, { done: SAME });
  const address = originOf(action, { of, visit }) ?? page.addressAfter?.(of, visit) ?? page.addressOf(of);
  return showDone(c, address, visit.actor.request);
}
