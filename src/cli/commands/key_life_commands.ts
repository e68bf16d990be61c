/** `claviger keys …`: the commands that change an issued key, and usage. */
import { renderFields } from "../../base/answer_fields.ts";
import { END, MONTH, monthOf, SPAN, toTimestamp } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { type ParsingRule, wholeNumber } from "../../base/rule.ts";
import {
  findKey,
  type KeySummary,
  replaceKey,
  resumeKey,
  rotateKey,
  suspendKey,
  USUAL_OVERLAP,
} from "../../licensing/keys/mod.ts";
import {
  changeLicense,
  createLicenseChanges,
  ENTITLEMENT_CHANGES,
  EXPIRY,
  effectsOf,
  type LicenseChange,
  type LicenseName,
  MAX_MACHINES,
  MONTHLY_LIMIT,
  OWN_FEATURES,
  OWN_FIELDS,
  renderBefore,
  renderEffects,
  renderOwnTexts,
  renderPlaces,
  renewedByDays,
  SEAT_MINUTES,
  TEXT_RULES,
  TIERS,
  UPDATES_FIELDS,
} from "../../licensing/mod.ts";
import { findUsageByDay, renderUsageByDay } from "../../usage/mod.ts";
import { type DatabaseCall, databaseCommand } from "../command.ts";
import { demandKey } from "../find_named.ts";
import { KEY_ID, REASON, SHORTEN } from "../options.ts";
import { flag, option, required } from "../parameter.ts";
import { orRefuse } from "../run.ts";

/** Ten years. */
const RENEWAL_DAYS = wholeNumber(1, 3_650);

export const ONCE = "The key is shown only once: store it now";

const suspend = databaseCommand({
  name: "suspend",
  description: "suspend a key: it is refused until it is resumed",
  arguments: KEY_ID,
  options: REASON,
  run: ({ id }, call) => setState(call, id, { change: suspendKey, state: "suspended" }),
});

const resume = databaseCommand({
  name: "resume",
  description: "resume a suspended key",
  arguments: KEY_ID,
  options: REASON,
  run: ({ id }, call) => setState(call, id, { change: resumeKey, state: "active" }),
});

const renew = databaseCommand({
  name: "renew",
  description: "give the key's license another expiry; also works after it has expired",
  arguments: KEY_ID,
  options: {
    ...REASON,
    expiresAt: option("the new expiry: its last day, a time in ISO 8601, or never", EXPIRY, { as: "time" }),
    days: option(
      "instead: so many days after the present expiry, or after now if it has passed",
      RENEWAL_DAYS,
      {
        as: "n",
      },
    ),
    ...SHORTEN,
  },
  check: ({ expiresAt, days }) =>
    (expiresAt === undefined) === (days === undefined) ? "give either --expires-at or --days" : undefined,
  async run({ id, days, shorten, ...given }, call) {
    let { expiresAt } = given;
    if (days !== undefined) {
      const key = await demandKey(call, id, "renew license");
      expiresAt = renewedByDays(key.licenseExpiresAt, { days, now: call.now });
    }
    await change(call, id, { what: "expiry", change: { expiresAt }, shorten });
  },
});

const tier = databaseCommand({
  name: "tier",
  description: "give the key's license another tier",
  arguments: { ...KEY_ID, tier: required("the new tier", TIERS) },
  options: REASON,
  run: ({ id, tier }, call) => change(call, id, { what: "tier", change: { tier } }),
});

const limit = databaseCommand({
  name: "limit",
  description: "give the key's license a monthly limit of its own",
  arguments: {
    ...KEY_ID,
    n: required("inferences a month, or none for the tier's own limit", orNone(MONTHLY_LIMIT)),
  },
  options: REASON,
  run: ({ id, n }, call) => change(call, id, { what: "monthly limit", change: { monthlyLimit: toValue(n) } }),
});

const machines = databaseCommand({
  name: "machines",
  description: "limit the machines of the key's license, and set how long a floating seat lasts",
  arguments: KEY_ID,
  options: {
    ...REASON,
    maxMachines: option("the most machines, or none: not counted", orNone(MAX_MACHINES), { as: "n" }),
    seatMinutes: option("minutes of a seat, or none: node-locked", orNone(SEAT_MINUTES), { as: "n" }),
  },
  check: ({ maxMachines, seatMinutes }) =>
    maxMachines === undefined && seatMinutes === undefined
      ? "give --max-machines or --seat-minutes"
      : undefined,
  run({ id, ...given }, call) {
    const places = { maxMachines: toValue(given.maxMachines), seatMinutes: toValue(given.seatMinutes) };
    return change(call, id, { what: "machine limit", change: places });
  },
});

const updates = databaseCommand({
  name: "updates",
  description: "say until when the key's license gets new versions of models",
  arguments: {
    ...KEY_ID,
    until: required("the last day, a time in ISO 8601, or none: every version", orNone(END)),
  },
  options: { ...REASON, ...SHORTEN },
  run: ({ id, until, shorten }, call) =>
    change(call, id, { what: "end of updates", change: { updatesUntil: toValue(until) }, shorten }),
});

const feature = databaseCommand({
  name: "feature",
  description: "grant or withdraw features of the key's license beside its tier; the others stay",
  arguments: {
    ...KEY_ID,
    features: required(
      "what it gets, such as +custom_models or 'no streaming'; several with commas",
      OWN_FEATURES,
    ),
  },
  options: {
    until: option("the last day or time; then the tier decides again", END, { as: "time" }),
    asTier: flag("leave the named features to the tier", { conflicts: ["until"] }),
    ...REASON,
    ...SHORTEN,
  },
  check({ features, until, asTier }) {
    const own = Object.values(features);
    if (until !== undefined && own.some((each) => each.until !== undefined))
      return "give the end once: with --until for all named features, or behind each name";
    if (asTier && own.some((each) => !each.granted || each.until !== undefined))
      return "with --as-tier give names alone, such as streaming";
    return undefined;
  },
  run({ id, features, until, asTier, shorten }, call) {
    const end = until && { until: toTimestamp(until) };
    const named = Object.entries(features).map(([name, own]) => [name, asTier ? null : { ...end, ...own }]);
    return change(call, id, {
      what: "features",
      change: { ownFeatures: Object.fromEntries(named) },
      shorten,
    });
  },
});

const value = databaseCommand({
  name: "value",
  description: "set values of the key's license, before those of its tier; the others stay",
  arguments: {
    ...KEY_ID,
    values: required("such as channels=64; several with commas; channels= removes it", ENTITLEMENT_CHANGES),
  },
  options: REASON,
  run: ({ id, values }, call) => change(call, id, { what: "values", change: { ownEntitlements: values } }),
});

const externalId = databaseCommand({
  name: "external-id",
  description: "set or remove your own name for the key's license, such as an order number",
  arguments: {
    ...KEY_ID,
    name: required("the name, or none to remove it", orNone(TEXT_RULES.external_id)),
  },
  options: REASON,
  async run({ id, name }, call) {
    // By the license: also after all its keys were revoked, so that another license can have the name.
    const { licenseId } = await demandKey(call, id, "change external id");
    const licenseUuid = parseId("lic", licenseId) ?? "";
    await change(call, id, {
      what: "external id",
      change: { externalId: toValue(name) },
      of: { licenseUuid },
    });
  },
});

const rotate = databaseCommand({
  name: "rotate",
  description: "issue a second key for the same license; the old key works until the overlap ends",
  arguments: KEY_ID,
  options: {
    ...REASON,
    overlap: option("how long the old key still works, in days or hours, such as 7d or 12h", SPAN, {
      as: "span",
      default: SPAN.parse(USUAL_OVERLAP) ?? 0,
      shownDefault: USUAL_OVERLAP,
    }),
  },
  async run({ id: uuid, overlap: overlapMs }, call) {
    const { config, database, actor, now, print } = call;
    const { id: replaces, mode } = await demandKey(call, uuid, "rotate key");
    const change = { uuid, mode, overlapMs };
    const by = { brand: config.brand, actor, now };
    const rotated = orRefuse(await rotateKey(createLicenseChanges(database), change, by));
    print.fields({
      id: rotated.id,
      api_key: rotated.apiKey,
      replaces,
      old_works_until: toTimestamp(rotated.oldWorksUntil),
    });
    print.note(ONCE);
  },
});

const replace = databaseCommand({
  name: "replace",
  description: "issue a new key for the license of a revoked key",
  arguments: KEY_ID,
  options: REASON,
  async run({ id: uuid }, call) {
    const { config, database, actor, now, print } = call;
    const { id: replaces, mode, licenseExpiresAt } = await demandKey(call, uuid, "replace key");
    const by = { brand: config.brand, actor, now };
    const { id, apiKey } = orRefuse(await replaceKey(createLicenseChanges(database), { uuid, mode }, by));
    print.fields({ id, api_key: apiKey, replaces });
    print.note(ONCE);
    if (licenseExpiresAt <= now) print.note("Its license has expired: renew it, so that the key works");
  },
});

const usage = databaseCommand({
  name: "usage",
  description: "show the use of the key's license by day; imported use has its own line",
  arguments: KEY_ID,
  options: { month: option("the month, such as 2026-11; by default this month", MONTH) },
  async run({ id, month: given }, call) {
    const key = await demandKey(call, id, "show usage");
    const month = given ?? monthOf(call.now.getTime());
    const use = await findUsageByDay(call.database, parseId("lic", key.licenseId) ?? "", month);
    const { used, imported, days } = use;
    const rows = days.filter((day) => day.used > 0).map((day) => ({ ...day }));
    const importedRow = imported === 0 ? [] : [{ day: "imported", used: imported }];
    call.print.table([...importedRow, ...rows, { day: "total", used }], renderUsageByDay(key, month, use));
  },
});

export const keyLifeCommands = [
  suspend,
  resume,
  renew,
  tier,
  limit,
  machines,
  updates,
  feature,
  value,
  externalId,
  rotate,
  replace,
  usage,
];

/**
 * Returns the rule for a value or the word `none`. The word stays: an option whose value is null becomes an empty
 * text.
 */
function orNone<Value>({ expects, parse }: ParsingRule<Value>): ParsingRule<Value | "none"> {
  return { expects, parse: (text) => (text === "none" ? text : parse(text)) };
}

/** Returns null for `none`, which removes a value. */
function toValue<Given>(given: Given | "none"): Given | null {
  return given === "none" ? null : given;
}

/** Tells whether a license has features or values beside its tier: then people see them. */
function hasOwn({ ownFeatures, ownEntitlements }: KeySummary): boolean {
  return Object.keys(ownFeatures).length + Object.keys(ownEntitlements).length > 0;
}

async function setState(
  { database, actor, now, print }: DatabaseCall,
  uuid: string,
  { change, state }: { readonly change: typeof suspendKey; readonly state: string },
): Promise<void> {
  orRefuse(await change(createLicenseChanges(database), uuid, { actor, now }));
  const key = await findKey(database, { uuid }, { now });
  print.fields({ id: key?.id, state: key?.state ?? state });
}

async function change(
  call: DatabaseCall,
  uuid: string,
  {
    what,
    change,
    shorten,
    of = { keyUuid: uuid },
  }: {
    readonly what: string;
    readonly change: LicenseChange;
    readonly shorten?: boolean;
    readonly of?: LicenseName;
  },
): Promise<void> {
  const { database, actor, now, print } = call;
  const changes = createLicenseChanges(database);
  const by = { change, shorten, actor, now };
  const { isChanged, before, after } = orRefuse(await changeLicense(changes, of, by));
  const key = await demandKey(call, uuid, "show key");
  // The state and the expiry of a rotated key are not those of its license.
  const licenseExpiresAt = toTimestamp(key.licenseExpiresAt);
  const { monthlyLimit, replacedBy } = key;
  print.fields(
    {
      id: key.id,
      license_id: key.licenseId,
      tier: key.tier,
      monthly_limit: monthlyLimit ?? "unlimited",
      ...renderPlaces(key),
      ...(hasOwn(key) && !print.isJson && renderOwnTexts(key)),
      state: key.state,
      expires_at: toTimestamp(key.expiresAt),
    },
    {
      ...renderFields(OWN_FIELDS, key),
      monthly_limit: monthlyLimit,
      ...renderFields(UPDATES_FIELDS, key),
      external_id: key.externalId,
      license_expires_at: licenseExpiresAt,
      replaced_by: replacedBy,
      changed: isChanged,
      before: renderBefore(before, after),
    },
  );
  if (isChanged) print.note(`Changed: ${renderEffects(effectsOf(before, after))}`);
  else
    print.note(`Nothing changed: the license has ${what.endsWith("s") ? "these" : "this"} ${what} already`);
  if (replacedBy === null) return;
  print.note(
    `This key was replaced by ${replacedBy}: the change applies to the license of both keys, which expires at ` +
      `${licenseExpiresAt}; the expiry of this key stays as it was`,
  );
}
