/**
 * Cursors: where the next page of a list begins. A cursor contains the position after the last row of a page, the time
 * to which relative filters such as `expiring_within` refer on every page, and a digest.
 *
 * The digest covers the list, its filters, the time and the position. So a cursor that was damaged, or that is sent with
 * other filters or to another list, is refused, and the reader never gets pages that do not fit together. A cursor
 * grants nothing, so it is not secret and not signed.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import * as v from "valibot";
import { type Refusal, refuse } from "../../../base/refusal.ts";

/** The values that all pages of one list share. */
interface List {
  /** The name of the list, such as `keys`. */
  readonly name: string;
  /** The values of all filters, without `limit` and `after`. */
  readonly filters: object;
  /** The form of its positions; that of a UUID by default. */
  readonly position?: RegExp | undefined;
}

export interface Cursor {
  /** The time of the request for the first page; relative filters refer to it. */
  readonly at: Date;
  /** The position after which the page begins, such as a UUID; undefined for the first page. */
  readonly position: string | undefined;
}

/** A digest of 16 bytes as base64url, then the rest of the cursor. */
const FORM = /^([A-Za-z0-9_-]{22})([A-Za-z0-9_-]{1,450})$/;
/** The longest text of a cursor. */
export const MAX_CURSOR_LENGTH = 472;

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Filters add up to a hundred years, and the database must still know the year. */
const LAST_MS = Date.parse("9000-01-01T00:00:00Z");
/** Checked, because anybody can compute a digest. */
const CONTENT = v.pipe(
  v.string(),
  v.parseJson(),
  v.tuple([v.pipe(v.number(), v.safeInteger(), v.minValue(0), v.maxValue(LAST_MS)), v.string()]),
);

/** Returns the cursor of the page after `position`. */
export function renderCursor(list: List, { at, position }: { readonly at: Date; readonly position: string }) {
  const content = Buffer.from(JSON.stringify([at.getTime(), position])).toString("base64url");
  return digestOf(list, content) + content;
}

/** Parses `after`. Without it this is the first page, whose relative filters refer to `now`. */
export function parseCursor(list: List, after: string | undefined, now: Date): Cursor | Refusal {
  if (after === undefined) return { at: now, position: undefined };
  const [, digest = "", content = ""] = FORM.exec(after) ?? [];
  if (content === "" || !timingSafeEqual(Buffer.from(digest), Buffer.from(digestOf(list, content)))) {
    return WRONG_CURSOR;
  }
  const parsed = v.safeParse(CONTENT, Buffer.from(content, "base64url").toString());
  if (!parsed.success) return WRONG_CURSOR;
  const [atMs, position] = parsed.output;
  return (list.position ?? UUID).test(position) ? { at: new Date(atMs), position } : WRONG_CURSOR;
}

const WRONG_AFTER = "after must be the `next` of an answer to a request with the same filters";
const WRONG_CURSOR = refuse("INVALID_REQUEST", `Cannot show the page: ${WRONG_AFTER}`, {
  fields: [{ field: "after", error: WRONG_AFTER }],
});

function digestOf({ name, filters }: List, content: string): string {
  const given = Object.entries(filters)
    .filter(([, value]) => value !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const digest = createHash("sha256")
    .update(JSON.stringify([name, given, content]))
    .digest();
  return digest.subarray(0, 16).toString("base64url");
}
