/** `claviger keys …`: issue, import, list, show, find and revoke. `key_life_commands.ts` has the commands that change a key. */
import { monthOf, toTimestamp } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { counted } from "../../base/render_count.ts";
import { wholeNumber } from "../../base/rule.ts";
import { openSession } from "../../database/mod.ts";
import {
  DAYS_OF_FILTER,
  findKey,
  findRevocable,
  hashApiKey,
  importKeys,
  issueKey,
  KEY_SORTS,
  type KeySummary,
  keyForm,
  keyPattern,
  listKeys,
  positionOf,
  renderKey,
  renderObstacles,
  revokeKey,
  toOrder,
} from "../../licensing/keys/mod.ts";
import {
  ACCOUNT,
  createLicenseChanges,
  EXPIRY,
  LISTED_STATES,
  MAX_MACHINES,
  MODES,
  MONTHLY_LIMIT,
  oneYearAfter,
  SEAT_MINUTES,
  TEXTS,
  TIERS,
} from "../../licensing/mod.ts";
import { findStoredLists, MOST_DAYS_LEFT } from "../../usage/figures/mod.ts";
import { importedUsageCte } from "../../usage/mod.ts";
import { command, databaseCommand, group } from "../command.ts";
import { demandAccount, demandKey } from "../find_named.ts";
import { readImportFile } from "../import_file.ts";
import { listOptions, printList } from "../list_options.ts";
import { CONFIRMATION, JSON_OPTIONS, KEY_ID, REASON } from "../options.ts";
import { anyText, flag, option, required } from "../parameter.ts";
import { showProgress } from "../progress.ts";
import { CommandRefused, orRefuse, readSettings, withDatabase } from "../run.ts";
import { keyLifeCommands, ONCE } from "./key_life_commands.ts";
import { why } from "./key_why_command.ts";

const issue = databaseCommand({
  name: "issue",
  description: "issue a key; it is shown only once",
  options: {
    email: required("the account's e-mail; a new account is made for a new e-mail", TEXTS.email),
    tier: required("the license's tier", TIERS),
    name: option("the account holder's name; by default the e-mail", TEXTS.name),
    organization: option("the account's organization", TEXTS.organization),
    mode: option("the key's mode", MODES, { default: "live" }),
    expiresAt: option(
      "when the key expires: its last day, a time in ISO 8601, or never; by default in a year",
      EXPIRY,
      {
        as: "time",
      },
    ),
    monthlyLimit: option("inferences a month; by default the tier's limit", MONTHLY_LIMIT, { as: "n" }),
    maxMachines: option("the most machines; by default they are not counted", MAX_MACHINES, { as: "n" }),
    seatMinutes: option("minutes of a floating seat; by default node-locked", SEAT_MINUTES, { as: "n" }),
    externalId: option("your own name for the license, such as an order number", TEXTS.external_id, {
      as: "id",
    }),
  },
  async run(values, { config, database, actor, now, print }) {
    const { email, tier, mode, externalId } = values;
    const expiresAt = values.expiresAt ?? oneYearAfter(now);
    const request = { ...values, expiresAt, now };
    const issued = orRefuse(await issueKey(database, request, { brand: config.brand, actor }));
    print.fields({
      id: issued.id,
      api_key: issued.apiKey,
      user_id: issued.userId,
      email,
      tier,
      mode,
      expires_at: toTimestamp(expiresAt),
      ...(externalId !== undefined && { external_id: externalId }),
    });
    print.note(ONCE);
  },
});

const importing = command({
  name: "import",
  description: "import keys that customers already have: all lines of a file, or none",
  arguments: {
    file: required(
      "one JSON object a line, or CSV whose first line names the fields: api_key, or sha256 and mode; email and tier; optional: name, organization, expires_at, monthly_limit, max_machines, seat_minutes, used, external_id; - is standard input",
      anyText,
    ),
  },
  options: JSON_OPTIONS,
  async run({ file, ...place }, { invocation, print }) {
    const config = readSettings(invocation, place, { inputFile: file });
    const keys = orRefuse(await readImportFile(invocation, file, config.brand));
    await withDatabase(invocation, { config }, async ({ address, actor, now, stopIfInterrupted }) => {
      await using session = openSession(address, { statementTimeoutMs: 120_000 });
      const { imported } = orRefuse(
        await importKeys(session, keys, {
          actor,
          now,
          usageCte: (sql) => importedUsageCte(sql, monthOf(now.getTime())),
          onProgress: (done) => {
            stopIfInterrupted();
            showProgress(invocation, done, { total: keys.length });
          },
        }),
      );
      print.line(`Imported ${counted(imported, "key")}`, { imported });
    });
  },
});

const list = databaseCommand({
  name: "list",
  description: "list the keys that meet every condition, by default oldest first",
  options: {
    ...listOptions("key"),
    sort: option("the order; most_used and latest_used are those of the stored figures", KEY_SORTS, {
      default: "oldest",
    }),
    account: option("only keys of this account, by its id or e-mail", ACCOUNT),
    externalId: option("only the keys of the license with this name", TEXTS.external_id, { as: "id" }),
    tier: option("only keys of this tier", TIERS),
    state: option("only keys in this state", LISTED_STATES),
    mode: option("only keys of this mode", MODES),
    expiringWithin: option("only keys whose license expires within this many days", DAYS_OF_FILTER, {
      as: "days",
    }),
    unusedFor: option("only keys that were neither used nor issued in this many days", DAYS_OF_FILTER, {
      as: "days",
    }),
    nearQuota: option(
      "only keys whose license has used at least this percentage of its monthly limit",
      wholeNumber(1, 100),
      { as: "percent" },
    ),
    runsOutWithin: option(
      "only keys whose quota is used up, or will be within this many days and before it resets, by the stored figures",
      wholeNumber(0, MOST_DAYS_LEFT),
      { as: "days" },
    ),
    refusedNow: flag("only keys that are refused now and not revoked, by the stored figures"),
    allPlacesTaken: flag("only keys without a free place for a machine, by the stored figures"),
  },
  async run(values, call) {
    const { database, now, print } = call;
    const stored = orRefuse(
      await findStoredLists(
        database,
        {
          runs_out_within: values.runsOutWithin,
          refused_now: values.refusedNow || undefined,
          all_places_taken: values.allPlacesTaken || undefined,
          sort: values.sort,
        },
        now,
      ),
    );
    if (stored !== undefined) print.note(`By the stored figures of ${toTimestamp(stored.asOf)}`);
    const account = values.account === undefined ? undefined : await demandAccount(database, values.account);
    const { externalId, tier, state, mode } = values;
    const filter = {
      externalId,
      tier,
      state,
      mode,
      nearQuotaPercent: values.nearQuota,
      accountUuid: account?.uuid,
      expiringWithinDays: values.expiringWithin,
      unusedForDays: values.unusedFor,
      ...toOrder(values.sort),
      ...stored?.filter,
    };
    await printList(call, values, {
      read: (part) => listKeys(database, { now, filter: { ...filter, ...part } }),
      positionOf: (key) => positionOf(key, parseId("key", key.id) ?? ""),
      toCells: toTableRow,
      toJson: renderKey,
    });
  },
});

function toTableRow(key: KeySummary) {
  return {
    id: key.id,
    key: key.hint,
    email: key.email,
    tier: key.tier,
    mode: key.mode,
    state: renderObstacles(key) || key.state,
    used: key.used,
    limit: key.monthlyLimit ?? "unlimited",
    "expires at": key.expiresAt,
    "last used": key.lastUsedAt,
  };
}

const show = databaseCommand({
  name: "show",
  description: "show one key",
  arguments: KEY_ID,
  async run({ id }, { print, ...context }) {
    print.fields(renderKey(await demandKey(context, id, "show key")));
  },
});

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
      print.fields(renderKey(found));
    });
  },
});

const revoke = databaseCommand({
  name: "revoke",
  description: "revoke a key for good",
  arguments: KEY_ID,
  options: { ...CONFIRMATION, ...REASON },
  async run({ id: uuid, dryRun }, { database, actor, now, print, confirm }) {
    const { id, state, hint, email } = orRefuse(await findRevocable(database, uuid, { now }));
    const named = `${id} (${hint}) of ${email}`;
    if (dryRun) return print.line(`Would revoke ${named}: it is ${state}`, { id, state, dry_run: true });
    await confirm(`Revoke ${named}? It is ${state}, and no command can undo this.`);
    orRefuse(await revokeKey(createLicenseChanges(database), { uuid }, { actor, now }));
    print.line(`Revoked ${id}`, { id, state: "revoked" });
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
