/** `claviger keys …`: the commands that change the license of a key, for all its keys. */
import { renderFields } from "../../base/answer_fields.ts";
import { END, monthOf, toTimestamp } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { renderCount } from "../../base/render_count.ts";
import { type ParsingRule, wholeNumber } from "../../base/rule.ts";
import { countKeysOf, type KeySummary } from "../../licensing/keys/mod.ts";
import {
  changeLicense,
  createLicenseChanges,
  ENTITLEMENT_CHANGES,
  EXPIRY,
  effectsOf,
  type LicenseChange,
  type LicenseName,
  MAX_MACHINES,
  MAX_OFFLINE_DAYS,
  MONTHLY_LIMIT,
  OWN_FEATURES,
  OWN_FIELDS,
  renderAllowances,
  renderBefore,
  renderEffects,
  renderOwnTexts,
  renewedByDays,
  SEAT_MINUTES,
  SELF_RELEASES,
  TERM_FIELDS,
  TEXT_RULES,
  TIERS,
  UPDATES_FIELDS,
  usesUp,
  YES_OR_NO,
} from "../../licensing/mod.ts";
import { type DatabaseCall, databaseCommand } from "../command.ts";
import { demandKey } from "../find_named.ts";
import { KEY_ID, REASON, SHORTEN } from "../options.ts";
import { flag, option, required } from "../parameter.ts";
import { orRefuse } from "../run.ts";
import { withoutUsual } from "../without_usual.ts";

/** Ten years. */
const RENEWAL_DAYS = wholeNumber(1, 3_650);

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
  description:
    "limit the machines of the key's license, and set how long they keep their places without a heartbeat",
  arguments: KEY_ID,
  options: {
    ...REASON,
    maxMachines: option("the most machines, or none: not counted", orNone(MAX_MACHINES), { as: "n" }),
    seatMinutes: option(
      "minutes from the last heartbeat of a machine until it loses its place: up to 1,440 for a floating seat, more for node-locked machines that check in; or none: never",
      orNone(SEAT_MINUTES),
      { as: "n" },
    ),
    selfReleases: option(
      "how many machines clients may release by their ids in 30 days, or none: the usual number",
      orNone(SELF_RELEASES),
      { as: "n" },
    ),
    showsMachines: option(
      "whether clients see the names of the machines, or none: if they are node-locked",
      orNone(YES_OR_NO),
      { as: "yes|no" },
    ),
  },
  check: ({ maxMachines, seatMinutes, selfReleases, showsMachines }) =>
    [maxMachines, seatMinutes, selfReleases, showsMachines].every((given) => given === undefined)
      ? "give --max-machines, --seat-minutes, --self-releases or --shows-machines"
      : undefined,
  run({ id, ...given }, call) {
    const machines = {
      maxMachines: toValue(given.maxMachines),
      seatMinutes: toValue(given.seatMinutes),
      selfReleases: toValue(given.selfReleases),
      showsMachines: toValue(given.showsMachines),
    };
    return change(call, id, { what: "machine settings", change: machines });
  },
});

const offline = databaseCommand({
  name: "offline",
  description: "say for how many days clients of the key's license get signed licenses",
  arguments: {
    ...KEY_ID,
    days: required(
      "so many days, 0 for no signed license, or none: as the tier says",
      orNone(MAX_OFFLINE_DAYS),
    ),
  },
  options: REASON,
  run: ({ id, days }, call) =>
    change(call, id, { what: "offline days", change: { maxOfflineDays: toValue(days) } }),
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

export const keyLicenseCommands = [
  renew,
  tier,
  limit,
  machines,
  offline,
  updates,
  feature,
  value,
  externalId,
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
      ...(print.isJson ? renderAllowances(key) : withoutUsual(renderAllowances(key))),
      ...(hasOwn(key) && !print.isJson && renderOwnTexts(key)),
      state: key.state,
      expires_at: toTimestamp(key.expiresAt),
    },
    {
      ...renderFields(OWN_FIELDS, key),
      ...renderFields(TERM_FIELDS, key),
      monthly_limit: monthlyLimit,
      ...renderFields(UPDATES_FIELDS, key),
      external_id: key.externalId,
      license_expires_at: licenseExpiresAt,
      replaced_by: replacedBy,
      changed: isChanged,
      before: renderBefore(before, after),
    },
  );
  const effects = effectsOf(before, after, { now, used: key.used, taken: key.placesTaken ?? 0 });
  if (isChanged) print.note(`Changed: ${renderEffects(effects)}`);
  else
    print.note(`Nothing changed: the license has ${what.endsWith("s") ? "these" : "this"} ${what} already`);
  if (isChanged && usesUp(effects)) print.note(await describeRefused(call, key));
  if (replacedBy === null) return;
  print.note(
    `This key was replaced by ${replacedBy}: the change applies to the license of both keys, which expires at ` +
      `${licenseExpiresAt}; the expiry of this key stays as it was`,
  );
}

/** Says how many keys the service refuses after a change that used up the quota of their license, and until when. */
async function describeRefused(
  { database, now }: DatabaseCall,
  { licenseId }: Pick<KeySummary, "licenseId">,
): Promise<string> {
  const keys = (await countKeysOf(database, [parseId("lic", licenseId) ?? ""])).get(licenseId) ?? 0;
  const { resetsAt } = monthOf(now.getTime());
  return `The quota is used up: the service refuses all keys of the license from now on until ${resetsAt.slice(0, 10)}, ${renderCount(keys)} that ${keys === 1 ? "is" : "are"} not revoked`;
}
