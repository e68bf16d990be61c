/** @jsxImportSource hono/jsx */
/** What the pages about many keys share: the selection, what one change is made to, and how keys and changes are shown. */

import * as v from "valibot";
import { NEVER_EXPIRES, TIMESTAMP, toTimestamp } from "../../base/calendar.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import type { KeySummary } from "../../licensing/keys/mod.ts";
import {
  ALLOWANCES,
  type Effect,
  type LicenseValues,
  MONTHLY_LIMIT,
  OWN_ENTITLEMENTS_FIELD,
  OWN_FEATURES_FIELD,
  parseAllowances,
  TIERS,
  type TierEntitlements,
  termOf,
} from "../../licensing/mod.ts";
import { Effects, MOST_LISTED } from "../frame/console/components/changes.tsx";
import { Table } from "../frame/console/components/table.tsx";
import { Customer, Foreign, KeyLink, Lines } from "../frame/console/components/values.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { type ActedKey, type KeyAction, licenseValuesOf } from "./key_action.ts";

/** A form has the ids of the most keys, with what was shown of each. */
export const FORM_LIMIT_BYTES = 1024 * 1024;

export interface Selection {
  readonly keys: readonly KeySummary[];
  readonly tiers: TierEntitlements;
  /** How many keys of each license are not revoked, selected or not, by the id of the license. */
  readonly keysOf: ReadonlyMap<string, number>;
  /** What a page showed of each key, or of its license, by the id of the key; empty before the page of the changes. */
  readonly shown: ReadonlyMap<string, string>;
  /** The number of changes of the run; undefined before it begins. */
  readonly total: string | null;
  /** The conditions of the list, as its address has them. */
  readonly conditions: string;
  /** Says in words which keys they are. */
  readonly which: string;
}

/** What one change is made to: a key, or a license with all its selected keys. */
export interface Unit {
  readonly first: KeySummary;
  readonly keys: readonly KeySummary[];
}

/** Returns what an action changes of these keys: each thing once, also if several keys share it. */
export function unitsOf({ shared }: KeyAction, keys: readonly KeySummary[]): Unit[] {
  const groups = Map.groupBy(keys, (key) => shared?.idOf({ key }) ?? key.id);
  return [...groups.values()].flatMap(([first, ...more]) =>
    first ? [{ first, keys: [first, ...more] }] : [],
  );
}

/** Counts what an action changes: `2 licenses`. */
export function countUnits({ shared }: KeyAction, count: number): string {
  return counted(count, shared?.one ?? "key");
}

/** Says how many keys the licenses have to which a change applies; empty for a change of keys. */
export function describeKeysOf(
  { shared }: KeyAction,
  units: readonly Unit[],
  { keysOf }: Pick<Selection, "keysOf">,
): string {
  if (shared === undefined || units.length === 0) return "";
  const count = units.reduce((sum, { first }) => sum + (keysOf.get(first.licenseId) ?? 0), 0);
  const have = units.length === 1 ? "It has" : "They have";
  return `${have} ${counted(count, "key")} that ${count === 1 ? "is" : "are"} not revoked.`;
}

/** Returns the visit as the page of one of the keys would have it: with the text that its form repeats. */
export function visitOfOne({ repeat }: KeyAction, of: ActedKey, visit: Visit): Visit {
  const form = new URLSearchParams(visit.form);
  if (repeat) form.set("repeat", repeat.textOf(of));
  return { ...visit, form };
}

/** Returns what a page shows of a key or its license as a word, so that a run can tell whether it is still so. */
export function toShown({ shared }: KeyAction, { first }: Unit): string {
  if (shared === undefined) return first.state;
  const { tier, monthlyLimit, ...others } = licenseValuesOf({ key: first });
  const [expiresAt, updatesUntil] = [others.expiresAt, others.updatesUntil].map(
    (end) => end && toTimestamp(end),
  );
  const own = [others.ownFeatures, others.ownEntitlements].map(toWord);
  const allowances = ALLOWANCES.map((name) => others[name]);
  const shown = [expiresAt, tier, monthlyLimit, updatesUntil, ...allowances, ...own];
  return shown.map((value) => value ?? "-").join(".");
}

/** Returns an object as a word without a dot; null for an empty one. */
function toWord(of: object): string | null {
  return Object.keys(of).length === 0 ? null : Buffer.from(JSON.stringify(of)).toString("base64url");
}

/** Returns the features or values of a word; none for `-`, and for a word that was altered. */
function ofWord<Own extends object>(schema: v.GenericSchema<unknown, Own>, word: string): Own | undefined {
  const json = Buffer.from(word, "base64url").toString();
  const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), schema), json);
  return parsed.success ? parsed.output : undefined;
}

/** Returns the key as the page showed it. */
export function asShown(
  { shared }: KeyAction,
  { first }: Unit,
  { shown = "", tiers }: { readonly shown?: string | undefined; readonly tiers: TierEntitlements },
): ActedKey {
  if (shared === undefined)
    return { tiers, key: { ...first, state: (shown || first.state) as KeySummary["state"] } };
  // An altered part counts as none. If the license has another value, its change is then refused.
  const [end = "", tier, limit = "", updates = "", ...others] = shown.split(".");
  const allowances = others.splice(0, ALLOWANCES.length);
  const [features = "", entitlements = ""] = others;
  const expiresAt = TIMESTAMP.parse(end) ?? NEVER_EXPIRES;
  const seen = {
    tier: TIERS.find((each) => each === tier) ?? "free",
    monthlyLimit: MONTHLY_LIMIT.parse(limit) ?? null,
    ...parseAllowances(allowances),
    expiresAt,
    // A start gives the license another expiry, which is seen.
    ...termOf(first),
    updatesUntil: TIMESTAMP.parse(updates) ?? null,
    ownFeatures: ofWord(OWN_FEATURES_FIELD, features) ?? {},
    ownEntitlements: ofWord(OWN_ENTITLEMENTS_FIELD, entitlements) ?? {},
  } satisfies LicenseValues;
  const tierEntitlements = tiers.get(seen.tier) ?? first.tierEntitlements;
  const ends = { expiresAt: first.expiresAt, licenseExpiresAt: expiresAt };
  return { key: { ...first, ...seen, ...ends, tierEntitlements }, seen, tiers };
}

/** Lists the ids of keys for a form, each with what was shown of it. */
export function renderIds(units: readonly Unit[], shownOf: (unit: Unit) => string): string {
  return units.flatMap((unit) => unit.keys.map(({ id }) => `${id}.${shownOf(unit)}`)).join(" ");
}

/** A unit and what happens to it. */
export interface ForeseenUnit extends Unit {
  readonly effects: readonly Effect[];
}

/** A row for each key or license with what it was and what it becomes. */
export function ChangesTable({ one, units, caption }: ChangesProps) {
  const columns = [
    {
      label: "Key",
      cell: ({ first, keys }: ForeseenUnit) => (
        <Lines
          text={<KeyLink id={first.id} text={first.hint} />}
          more={keys.length > 1 && `and ${counted(keys.length - 1, "more key")} of this ${one.shared?.one}`}
        />
      ),
    },
    {
      label: "Account",
      cell: ({ first: { userId, email, name, organization, externalId } }: ForeseenUnit) => (
        <Customer
          userId={userId}
          email={email}
          more={[name === email ? "" : name, organization, externalId ?? ""]}
        />
      ),
    },
    {
      label: "Change",
      cell: ({ effects }: ForeseenUnit) => <Effects of={effects} />,
    },
  ];
  const [first, rest] = [units.slice(0, MOST_LISTED), units.slice(MOST_LISTED)];
  return (
    <>
      <Table caption={caption} columns={columns} rows={first} />
      {rest.length > 0 && (
        <details class="listed">
          <summary>{`Show the other ${countUnits(one, rest.length)}`}</summary>
          <Table caption={`The other ${countUnits(one, rest.length)}`} columns={columns} rows={rest} />
        </details>
      )}
    </>
  );
}

interface ChangesProps {
  readonly one: KeyAction;
  readonly units: readonly ForeseenUnit[];
  readonly caption: string;
}

/** Says how many lose what: `earlier end: 1 of 3 licenses; fewer machines: …`; empty if none loses anything. */
export function sumLosses(one: KeyAction, units: readonly ForeseenUnit[]): string {
  const losses = units.flatMap(({ effects }) => [...new Set(effects.flatMap(({ loss }) => loss ?? []))]);
  return [...Map.groupBy(losses, (loss) => loss)]
    .map(([loss, { length }]) => `${loss}: ${renderCount(length)} of ${countUnits(one, units.length)}`)
    .join("; ");
}

/** The first keys of a selection with what people know them by, below a title that opens them. */
export function FoldedKeys({
  title,
  keys,
}: {
  readonly title: string;
  readonly keys: readonly KeySummary[];
}) {
  const shown = keys.slice(0, MOST_LISTED);
  const first = shown.length < keys.length ? `, the first ${MOST_LISTED}` : "";
  return (
    <details class="listed">
      <summary>{`${title}: ${counted(keys.length, "key")}${first}`}</summary>
      <KeyList
        of={shown.map(({ id, hint, email, tier, state }) => [id, hint, `${email}, ${tier}, ${state}`])}
      />
    </details>
  );
}

/** Keys, each with its id, its hint, and words about it. */
export function KeyList({ of }: { readonly of: readonly (readonly string[])[] }) {
  return (
    <ul>
      {of.map(([id = "", hint = "", ...words]) => (
        <li>
          <KeyLink id={id} text={hint} /> <Foreign text={words.join(" ")} />
        </li>
      ))}
    </ul>
  );
}

export function BackToList({ conditions }: Pick<Selection, "conditions">) {
  return (
    <p>
      <a href={`/console/keys?${conditions}`}>Back to the keys</a>
    </p>
  );
}
