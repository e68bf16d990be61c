/** `claviger keys …`: issue, import, list, show, find and revoke. `key_life_commands.ts` has the commands that change a key. */
import { type Command, Option } from "commander";
import { monthOf, toTimestamp } from "../../calendar.ts";
import { openSession } from "../../database/mod.ts";
import {
  findKey,
  findRevocable,
  hashApiKey,
  importKeys,
  issueKey,
  type KeySummary,
  keyPattern,
  listKeys,
  renderKey,
  revokeKey,
} from "../../keys/mod.ts";
import {
  createLicenseChanges,
  type KeyMode,
  LISTED_STATES,
  MODES,
  MONTHLY_LIMIT,
  oneYearAfter,
  refuseUnknownKey,
  TEXTS,
  TIERS,
  type Tier,
} from "../../licensing/mod.ts";
import { importedUsageCte } from "../../usage/mod.ts";
import { type ConfirmOptions, confirm, withConfirmation } from "../confirm.ts";
import { readImportFile } from "../import_file.ts";
import type { Invocation } from "../invocation.ts";
import { type ListOptions, partOf, showPart, withListOptions } from "../list_options.ts";
import {
  accountOption,
  type ChangeOptions,
  expiryOption,
  idOption,
  type JsonOptions,
  parsedOption,
  wholeNumberOption,
  withJsonOptions,
  withReason,
  withWords,
} from "../options.ts";
import { counted, printFields, printJson, printLine, printTable } from "../print.ts";
import { showProgress } from "../progress.ts";
import { CommandRefused, orRefuse, readSettings, withDatabase } from "../run.ts";
import { findAccountBy } from "./accounts_commands.ts";

/** The most days of a filter: a hundred years, as in the API. */
const MAX_DAYS = 36_500;

/**
 * Adds the group `keys` and returns it; `key_life_commands.ts` and `key_why_command.ts` add their commands to it.
 *
 * One long function, because it is a list of commands, one after the other.
 */
export function addKeysCommands(program: Command, invocation: Invocation): Command {
  const keys = program.command("keys").description("issue, import, find, change and revoke API keys");

  withJsonOptions(keys.command("issue"))
    .description("issue a key; it is shown only once")
    .requiredOption(
      "--email <email>",
      "the account's e-mail; a new account is made for a new e-mail",
      parsedOption(TEXTS.email),
    )
    .addOption(withWords(new Option("--tier <tier>", "the license's tier"), TIERS).makeOptionMandatory())
    .option("--name <name>", "the account holder's name; by default the e-mail", parsedOption(TEXTS.name))
    .option("--organization <organization>", "the account's organization", parsedOption(TEXTS.organization))
    .addOption(withWords(new Option("--mode <mode>", "the key's mode"), MODES).default("live"))
    .option(
      "--expires-at <time>",
      "when the key expires: ISO 8601, or never; by default in a year",
      expiryOption,
    )
    .option(
      "--monthly-limit <n>",
      "inferences a month; by default the tier's limit",
      parsedOption(MONTHLY_LIMIT),
    )
    .option(
      "--external-id <id>",
      "your own name for the license, such as an order number",
      parsedOption(TEXTS.external_id),
    )
    .action((options: IssueOptions) => issue(invocation, options));

  withJsonOptions(keys.command("import"))
    .description("import keys that customers already have: all lines of a file, or none")
    .argument(
      "<file>",
      "one JSON object a line, or CSV whose first line names the fields: api_key, or sha256 and mode; email and tier; optional: name, organization, expires_at, monthly_limit, used, external_id; - is standard input",
    )
    .action((file: string, options: JsonOptions) => runImport(invocation, file, options));

  withListOptions(withJsonOptions(keys.command("list")), { kind: "key" })
    .description("list the keys that meet every condition, oldest first")
    .option("--account <account>", "only keys of this account, by its id or e-mail", accountOption)
    .option(
      "--external-id <id>",
      "only the keys of the license with this name",
      parsedOption(TEXTS.external_id),
    )
    .addOption(withWords(new Option("--tier <tier>", "only keys of this tier"), TIERS))
    .addOption(withWords(new Option("--state <state>", "only keys in this state"), LISTED_STATES))
    .addOption(withWords(new Option("--mode <mode>", "only keys of this mode"), MODES))
    .option(
      "--expiring-within <days>",
      "only keys that expire within this many days",
      wholeNumberOption(0, MAX_DAYS),
    )
    .option(
      "--unused-for <days>",
      "only keys that were neither used nor issued in this many days",
      wholeNumberOption(0, MAX_DAYS),
    )
    .option(
      "--near-quota <percent>",
      "only keys whose license has used at least this percentage of its monthly limit",
      wholeNumberOption(1, 100),
    )
    .action((options: KeyListOptions) => list(invocation, options));

  withJsonOptions(keys.command("show"))
    .description("show one key")
    .argument("<id>", "the key's id", idOption("key"))
    .action((uuid: string, options: JsonOptions) =>
      withDatabase(invocation, options, async (context) => {
        const key = orRefuse(
          (await findKey(context.database, { uuid }, context)) ?? refuseUnknownKey("show key", uuid),
        );
        show(invocation, options, key);
      }),
    );

  withJsonOptions(keys.command("find"))
    .description("read a key from standard input, and show it as `keys show` does")
    .action((options: JsonOptions) => find(invocation, options));

  withReason(withConfirmation(withJsonOptions(keys.command("revoke"))))
    .description("revoke a key for good")
    .argument("<id>", "the key's id", idOption("key"))
    .action((uuid: string, options: RevokeOptions) => revoke(invocation, uuid, options));
  return keys;
}

type RevokeOptions = ConfirmOptions & ChangeOptions;

interface KeyListOptions extends JsonOptions, ListOptions {
  readonly account?: string;
  readonly externalId?: string;
  readonly tier?: Tier;
  readonly state?: KeySummary["state"];
  readonly mode?: KeyMode;
  readonly expiringWithin?: number;
  readonly unusedFor?: number;
  readonly nearQuota?: number;
}

interface IssueOptions extends JsonOptions {
  readonly email: string;
  readonly tier: Tier;
  readonly name?: string;
  readonly organization?: string;
  readonly mode: KeyMode;
  readonly expiresAt?: Date;
  readonly monthlyLimit?: number;
  readonly externalId?: string;
}

async function issue(invocation: Invocation, options: IssueOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ config, database, actor, now }) => {
    const expiresAt = options.expiresAt ?? oneYearAfter(now);
    const request = { ...options, expiresAt, now };
    const issued = orRefuse(await issueKey(database, request, { brand: config.brand, actor }));
    const shown = {
      id: issued.id,
      api_key: issued.apiKey,
      user_id: issued.userId,
      email: options.email,
      tier: options.tier,
      mode: options.mode,
      expires_at: toTimestamp(expiresAt),
      ...(options.externalId !== undefined && { external_id: options.externalId }),
    };
    if (options.json) return printJson(invocation, shown);
    printFields(invocation, shown);
    invocation.err("The key is shown only once: store it now\n");
  });
}

async function list(invocation: Invocation, options: KeyListOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ database, now }) => {
    const account =
      options.account === undefined ? undefined : await findAccountBy(database, options.account);
    const { externalId, tier, state, mode } = options;
    const filter = {
      ...(await partOf(invocation, database, options)),
      externalId,
      tier,
      state,
      mode,
      nearQuotaPercent: options.nearQuota,
      accountUuid: account?.uuid,
      expiringWithinDays: options.expiringWithin,
      unusedForDays: options.unusedFor,
    };
    const found = await listKeys(database, { now, filter });
    const show = (keys: readonly KeySummary[]) =>
      options.json
        ? printJson(invocation, keys.map(renderKey))
        : printTable(invocation, keys.map(toTableRow));
    showPart(invocation, { ...options, found, show });
  });
}

function toTableRow(key: KeySummary) {
  return {
    id: key.id,
    key: key.hint,
    email: key.email,
    tier: key.tier,
    mode: key.mode,
    state: key.state,
    used: key.used,
    limit: key.monthlyLimit ?? "unlimited",
    "expires at": key.expiresAt,
    "last used": key.lastUsedAt,
  };
}

/** A key has 58 characters and a newline: much longer input is not a key. */
const KEY_INPUT_LIMIT_BYTES = 1_024;

async function find(invocation: Invocation, options: JsonOptions): Promise<void> {
  const config = readSettings(invocation, options);
  const input = await invocation.readInput(KEY_INPUT_LIMIT_BYTES);
  const key = input?.trim() ?? "";
  if (!keyPattern(config.brand).test(key)) {
    const form = `${config.brand.name}_live_ or ${config.brand.name}_test_ and 48 lowercase hexadecimal digits`;
    throw new CommandRefused(`Cannot find key: standard input must hold one key, ${form}`);
  }
  await withDatabase(invocation, { config }, async (context) => {
    const found = await findKey(context.database, { hash: hashApiKey(key) }, context);
    if (found === undefined) {
      throw new CommandRefused(
        "Cannot find key: the key on standard input was never issued or imported here",
      );
    }
    show(invocation, options, found);
  });
}

async function revoke(invocation: Invocation, uuid: string, options: RevokeOptions): Promise<void> {
  await withDatabase(invocation, options, async (context) => {
    const { database, actor, now } = context;
    const key = orRefuse(await findRevocable(database, uuid, { now }));
    const named = `${key.id} (${key.hint}) of ${key.email}`;
    if (options.dryRun) {
      if (options.json) printJson(invocation, { id: key.id, state: key.state, dry_run: true });
      else printLine(invocation, `Would revoke ${named}: it is ${key.state}`);
      return;
    }
    const question = `Revoke ${named}? It is ${key.state}, and no command can undo this.`;
    await confirm(invocation, question, { ...context, options });
    const { id } = orRefuse(await revokeKey(createLicenseChanges(database), { uuid }, { actor, now }));
    if (options.json) printJson(invocation, { id, state: "revoked" });
    else invocation.out(`Revoked ${id}\n`);
  });
}

function show(invocation: Invocation, options: JsonOptions, key: KeySummary): void {
  if (options.json) printJson(invocation, renderKey(key));
  else printFields(invocation, renderKey(key));
}

async function runImport(invocation: Invocation, file: string, options: JsonOptions): Promise<void> {
  const config = readSettings(invocation, options, { inputFile: file });
  const keys = orRefuse(await readImportFile(invocation, file, config.brand));
  await withDatabase(invocation, { config }, async ({ address, actor, now, stopIfInterrupted }) => {
    const session = openSession(address, { statementTimeoutMs: 120_000 });
    try {
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
      if (options.json) printJson(invocation, { imported });
      else invocation.out(`Imported ${counted(imported, "key")}\n`);
    } finally {
      await session.close();
    }
  });
}
