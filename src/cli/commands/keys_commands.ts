/** `claviger keys …`: issue, import, list, show, find and revoke. Two files beside it have the commands that change a key and its license. */
import { END, monthOf, toDay, toTimestamp } from "../../base/calendar.ts";
import { parseId, toId } from "../../base/ids.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { openSession } from "../../database/mod.ts";
import {
  findKey,
  findRevocable,
  hashApiKey,
  importKeys,
  issueKey,
  type KeySummary,
  keyForm,
  keyPattern,
  listKeys,
  positionOf,
  renderKey,
  renderObstacles,
  revokeKey,
} from "../../licensing/keys/mod.ts";
import {
  createLicenseChanges,
  EXPIRY,
  entitlementsOf,
  findAccountOfList,
  MAX_MACHINES,
  MAX_OFFLINE_DAYS,
  MODES,
  MONTHLY_LIMIT,
  OWN_ENTITLEMENTS,
  OWN_FEATURES,
  oneYearAfter,
  planEnd,
  renderEntitlements,
  renderOwnFeatures,
  renderOwnTexts,
  SEAT_MINUTES,
  SELF_RELEASES,
  TERM_DAYS,
  TEXT_RULES,
  TIERS,
  YES_OR_NO,
} from "../../licensing/mod.ts";
import {
  findStoredLists,
  isByFigures,
  KEY_CONDITIONS,
  refreshFigures,
  toKeyFilter,
} from "../../usage/figures/mod.ts";
import { importedUsageCte } from "../../usage/mod.ts";
import { command, databaseCommand, group } from "../command.ts";
import { demandKey } from "../find_named.ts";
import { readImportFile } from "../import_file.ts";
import { conditionOptions, conditionsOf, listOptions, printList } from "../list_options.ts";
import { CONFIRMATION, JSON_OPTIONS, KEY_ID, PATH, REASON } from "../options.ts";
import { flag, option, required } from "../parameter.ts";
import type { Printer } from "../print.ts";
import { showProgress } from "../progress_bar.ts";
import { findRemains } from "../remains.ts";
import { CommandRefused, orRefuse, readSettings, withDatabase } from "../run.ts";
import { withoutUsual } from "../without_usual.ts";
import { keyLifeCommands, ONCE } from "./key_life_commands.ts";
import { why } from "./key_why_command.ts";

const issue = databaseCommand({
  name: "issue",
  description: "issue a key; it is shown only once",
  options: {
    email: required("the account's e-mail; a new account is made for a new e-mail", TEXT_RULES.email),
    tier: required("the license's tier", TIERS),
    name: option("the account holder's name; by default the e-mail", TEXT_RULES.name),
    organization: option("the account's organization", TEXT_RULES.organization),
    mode: option("the key's mode", MODES, { default: "live" }),
    expiresAt: option(
      "when the key expires: its last day, a time in ISO 8601, or never; by default in a year",
      EXPIRY,
      {
        as: "time",
      },
    ),
    startsOnFirstUse: flag("the license ends a number of days after its first use"),
    termDays: option("the days from the first use to the expiry", TERM_DAYS, { as: "n" }),
    latestStart: option(
      "the days count from then at the latest: a last day or a time; by default in a year",
      END,
      { as: "time" },
    ),
    updatesUntil: option(
      "the last day or time at which new versions of models are for the license; by default all are",
      END,
      { as: "time" },
    ),
    monthlyLimit: option("inferences a month; by default the tier's limit", MONTHLY_LIMIT, { as: "n" }),
    maxMachines: option("the most machines; by default they are not counted", MAX_MACHINES, { as: "n" }),
    seatMinutes: option(
      "minutes from the last heartbeat of a machine until it loses its place: up to 1,440 for a floating seat, more for node-locked machines that check in; by default never",
      SEAT_MINUTES,
      { as: "n" },
    ),
    selfReleases: option(
      "how many machines clients may release by their ids in 30 days; by default 3, or for floating seats ten times the places in a day",
      SELF_RELEASES,
      { as: "n" },
    ),
    showsMachines: option(
      "whether clients see the names of the machines; by default if they are node-locked",
      YES_OR_NO,
      { as: "yes|no" },
    ),
    maxOfflineDays: option(
      "for how many days clients get signed licenses, 0 for none; by default as the tier says",
      MAX_OFFLINE_DAYS,
      { as: "n" },
    ),
    features: option(
      "what the license has beside its tier, such as 'custom_models until 2027-06-30, no streaming'",
      OWN_FEATURES,
      { as: "names" },
    ),
    values: option("values of the license, such as 'channels=64, region=eu'", OWN_ENTITLEMENTS),
    externalId: option("your own name for the license, such as an order number", TEXT_RULES.external_id, {
      as: "id",
    }),
  },
  async run(values, { config, database, actor, now, print }) {
    const { email, tier, mode, externalId, updatesUntil } = values;
    const { features: ownFeatures, values: ownEntitlements } = values;
    const end = orRefuse(planEnd(values, { what: "issue key", now, usual: oneYearAfter(now) }));
    const { expiresAt, term } = end;
    const request = { ...values, ownFeatures, ownEntitlements, ...end, now };
    const issued = orRefuse(await issueKey(database, request, { brand: config.brand, actor }));
    print.fields(
      {
        id: issued.id,
        api_key: issued.apiKey,
        user_id: issued.userId,
        email,
        tier,
        mode,
        expires_at: toTimestamp(expiresAt),
        ...(term !== undefined && {
          term_days: term.termDays,
          latest_start: toTimestamp(term.latestStart),
        }),
        ...(externalId !== undefined && { external_id: externalId }),
        ...(updatesUntil !== undefined && { updates_until: toTimestamp(updatesUntil) }),
        ...(ownFeatures !== undefined && { own_features: renderOwnFeatures(ownFeatures) }),
        ...(ownEntitlements !== undefined && { own_entitlements: renderEntitlements(ownEntitlements) }),
      },
      {
        license_id: toId("lic", issued.licenseUuid),
        external_id: externalId ?? null,
        starts_on_first_use: term !== undefined,
        term_days: term?.termDays ?? null,
        latest_start: term === undefined ? null : toTimestamp(term.latestStart),
        updates_until: updatesUntil === undefined ? null : toTimestamp(updatesUntil),
        own_features: ownFeatures ?? {},
        own_entitlements: entitlementsOf({ tierEntitlements: {}, ownEntitlements: ownEntitlements ?? {} }),
      },
    );
    if (term !== undefined)
      print.note(
        `The license ends ${counted(term.termDays, "day")} after its first use, and at ${toTimestamp(expiresAt)} at the latest`,
      );
    print.note(ONCE);
  },
});

const importing = command({
  name: "import",
  description: "import keys that customers already have: all lines of a file, or none",
  arguments: {
    file: required(
      "one JSON object a line, or CSV whose first line names the fields: api_key, or sha256 and mode; email and tier; optional: name, organization, expires_at, starts_on_first_use with term_days and latest_start, updates_until, monthly_limit, max_machines, seat_minutes, self_releases, shows_machines, max_offline_days, own_features, own_entitlements, used, external_id; - is standard input",
      PATH,
    ),
  },
  options: {
    ...JSON_OPTIONS,
    dryRun: flag("check the file against the keys that exist, and import nothing"),
  },
  async run({ file, dryRun, ...place }, { invocation, print }) {
    const config = readSettings(invocation, place, { inputFile: file });
    const keys = orRefuse(await readImportFile(invocation, file, config.brand));
    await withDatabase(invocation, { config }, async ({ address, actor, now, stopIfInterrupted }) => {
      await using session = openSession(address, { statementTimeoutMs: 120_000 });
      const { imported } = orRefuse(
        await importKeys(session, keys, {
          actor,
          now,
          isDryRun: dryRun,
          usageCte: (sql) => importedUsageCte(sql, monthOf(now.getTime())),
          onProgress: (done) => {
            stopIfInterrupted();
            showProgress(invocation, done, { total: keys.length });
          },
        }),
      );
      if (dryRun) print.line(`Would import ${counted(imported, "key")}`, { imported, dry_run: true });
      else print.line(`Imported ${counted(imported, "key")}`, { imported });
    });
  },
});

const list = databaseCommand({
  name: "list",
  description: "list the keys that meet every condition, by default oldest first",
  options: {
    ...listOptions("key"),
    wide: flag("show all columns"),
    ...conditionOptions(KEY_CONDITIONS),
  },
  async run(values, call) {
    const { database, now, print, address, log, invocation } = call;
    const conditions = conditionsOf(KEY_CONDITIONS, values);
    if (isByFigures(conditions)) {
      await refreshFigures({ address, log, clock: invocation.clock }, invocation.untilSignal());
      call.stopIfInterrupted();
    }
    const stored = orRefuse(await findStoredLists(database, conditions, now));
    if (stored !== undefined) print.note(`By the stored figures of ${toTimestamp(stored.asOf)}`);
    const { account: who } = conditions;
    const accountUuid = orRefuse(await findAccountOfList(database, who, "list keys"));
    const filter = { ...toKeyFilter(conditions), accountUuid, ...stored?.filter };
    await printList(call, values, {
      read: (part) => listKeys(database, { now, filter: { ...filter, ...part } }),
      positionOf: (key) => positionOf(key, parseId("key", key.id) ?? ""),
      toCells: values.wide ? toWideRow : (key) => toRow(key, invocation.columns),
      toJson: renderKey,
    });
  },
});

/** So many columns have room for id, e-mail, expiry and state. */
const COLUMNS_WITH_EXPIRY = 100;

/** A row for a terminal of 80 columns, or of more. The state is last, because it can be long. */
function toRow(key: KeySummary, columns = Number.POSITIVE_INFINITY) {
  return {
    id: key.id,
    email: key.email,
    ...(columns >= COLUMNS_WITH_EXPIRY && { expires: toDay(key.expiresAt) }),
    state: renderObstacles(key) || key.state,
  };
}

function toWideRow(key: KeySummary) {
  return {
    id: key.id,
    key: key.hint,
    email: key.email,
    tier: key.tier,
    mode: key.mode,
    used: renderCount(key.used),
    limit: key.monthlyLimit === null ? "unlimited" : renderCount(key.monthlyLimit),
    "expires at": key.expiresAt,
    "last used": key.lastUsedAt,
    state: renderObstacles(key) || key.state,
  };
}

const show = databaseCommand({
  name: "show",
  description: "show one key",
  arguments: KEY_ID,
  async run({ id }, { print, ...context }) {
    printKey(print, await demandKey(context, id, "show key"));
  },
});

/** Prints a key: for people, features and values are texts. */
function printKey(print: Printer, key: KeySummary): void {
  print.fields(print.isJson ? renderKey(key) : { ...withoutUsual(renderKey(key)), ...renderOwnTexts(key) });
}

/** A key has 58 characters and a newline: much longer input is not a key. */
const KEY_INPUT_LIMIT_BYTES = 1_024;

const find = command({
  name: "find",
  description: "read a key from standard input, and show it as `keys show` does",
  options: JSON_OPTIONS,
  async run(place, { invocation, print }) {
    const config = readSettings(invocation, place);
    const input = await invocation.readInput(KEY_INPUT_LIMIT_BYTES);
    const key = input?.trim() ?? "";
    if (!keyPattern(config.brand).test(key)) {
      throw new CommandRefused(`Cannot find key: standard input must hold one key, ${keyForm(config.brand)}`);
    }
    await withDatabase(invocation, { config }, async (context) => {
      const found = await findKey(context.database, { hash: hashApiKey(key) }, context);
      if (found === undefined) {
        throw new CommandRefused(
          "Cannot find key: the key on standard input was never issued or imported here",
        );
      }
      printKey(print, found);
    });
  },
});

const revoke = databaseCommand({
  name: "revoke",
  description: "revoke a key for good",
  arguments: KEY_ID,
  options: { ...CONFIRMATION, ...REASON },
  async run({ id: uuid, dryRun }, { database, actor, now, print, confirm }) {
    const key = orRefuse(await findRevocable(database, uuid, { now }));
    const { id, state, hint, email } = key;
    const named = `${id} (${hint}) of ${email}`;
    const remains = await findRemains({ database, now }, key);
    if (dryRun) {
      print.line(`Would revoke ${named}: it is ${state}`, { id, state, dry_run: true });
      if (remains) print.note(remains);
      return;
    }
    await confirm(
      [`Revoke ${named}? It is ${state}, and no command can undo this.`, remains].join(" ").trim(),
    );
    orRefuse(await revokeKey(createLicenseChanges(database), { uuid }, { actor, now }));
    print.line(`Revoked ${id}`, { id, state: "revoked" });
    if (remains) print.note(remains);
  },
});

export const keys = group("keys", "issue, import, find, change and revoke API keys", [
  issue,
  importing,
  list,
  show,
  find,
  revoke,
  ...keyLifeCommands,
  why,
]);
