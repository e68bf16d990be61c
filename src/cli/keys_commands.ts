/** `claviger keys …`: issue, import, list, show, find, revoke. */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { type Command, Option } from "commander";
import { monthOf, toTimestamp } from "../calendar.ts";
import { openSession } from "../database/mod.ts";
import {
  findKey,
  hashApiKey,
  type ImportedKey,
  importKeys,
  issueKey,
  type KeyMode,
  type KeySummary,
  keyPattern,
  listKeys,
  parseImportLine,
  revokeKey,
} from "../keys/mod.ts";
import { NEVER_EXPIRES, type Tier } from "../licensing/mod.ts";
import { isRefusal } from "../refusal.ts";
import { importedUsagePart } from "../usage/mod.ts";
import {
  emailOption,
  idOption,
  type PlaceOptions,
  textOption,
  tierOption,
  timestampOption,
  wholeNumberOption,
  withJson,
  withPlace,
} from "./options.ts";
import { printFields, printJson, printTable } from "./print.ts";
import { CommandRefused, orRefuse, type Workplace, withInstallation } from "./run.ts";
import type { Surroundings } from "./surroundings.ts";

type Json = PlaceOptions & { readonly json: boolean };

export function addKeysCommands(program: Command, surroundings: Surroundings): void {
  const keys = program.command("keys").description("issue, import, look at and revoke API keys");

  withPlace(withJson(keys.command("issue")))
    .description("issue a key: the only time that it is shown")
    .requiredOption("--email <email>", "the account, made if it is new", emailOption)
    .requiredOption("--tier <tier>", "free, research, commercial or enterprise", tierOption)
    .option("--name <name>", "the account holder's name; the e-mail by default", textOption(200))
    .option("--organization <organization>", "the account's organization", textOption(200))
    .addOption(new Option("--mode <mode>", "live or test").choices(["live", "test"]).default("live"))
    .option("--expires-at <time>", "ISO 8601, or never; a year from now by default", expiryOption)
    .option("--monthly-limit <n>", "inferences a month; the tier's by default", wholeNumberOption(0))
    .action((options: IssueOptions) => issue(surroundings, options));

  withPlace(withJson(keys.command("import")))
    .description("import keys that customers already hold: all or nothing")
    .argument(
      "<file>",
      "lines of JSON: api_key, or sha256 and mode; email, tier, expires_at, monthly_limit, used",
    )
    .action((file: string, options: Json) => runImport(surroundings, file, options));

  withPlace(withJson(keys.command("list")))
    .description("list all keys")
    .action((options: Json) => list(surroundings, options));

  withPlace(withJson(keys.command("show")))
    .description("show one key")
    .argument("<id>", "the key's id", idOption("key"))
    .action((uuid: string, options: Json) =>
      withInstallation(surroundings, options, async (workplace) => {
        show(surroundings, options, await findKey(workplace.database, { uuid }, workplace));
      }),
    );

  withPlace(withJson(keys.command("find")))
    .description("find the key that is given on standard input")
    .action((options: Json) => find(surroundings, options));

  withPlace(withJson(keys.command("revoke")))
    .description("revoke a key for good")
    .argument("<id>", "the key's id", idOption("key"))
    .option("--reason <text>", "for the audit log", textOption(2_000))
    .action((uuid: string, options: Json & { readonly reason?: string }) =>
      withInstallation(surroundings, options, async ({ database, actor, now }) => {
        const revoked = orRefuse(
          await revokeKey(database, { uuid }, { actor: { ...actor, reason: options.reason }, now }),
        );
        if (options.json) printJson(surroundings, { id: revoked.id, state: "revoked" });
        else surroundings.out(`Revoked ${revoked.id}\n`);
      }),
    );
}

interface IssueOptions extends Json {
  readonly email: string;
  readonly tier: Tier;
  readonly name?: string;
  readonly organization?: string;
  readonly mode: KeyMode;
  readonly expiresAt?: Date;
  readonly monthlyLimit?: number;
}

function expiryOption(text: string): Date {
  return text === "never" ? NEVER_EXPIRES : timestampOption(text);
}

async function issue(surroundings: Surroundings, options: IssueOptions): Promise<void> {
  await withInstallation(surroundings, options, async ({ config, database, actor, now }) => {
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
    };
    if (options.json) return printJson(surroundings, shown);
    printFields(surroundings, shown);
    surroundings.err("The key is shown this once: store it now\n");
  });
}

function oneYearAfter(now: Date): Date {
  const then = new Date(now);
  then.setUTCFullYear(then.getUTCFullYear() + 1);
  return then;
}

async function list(surroundings: Surroundings, options: Json): Promise<void> {
  await withInstallation(surroundings, options, async ({ database, now }) => {
    const keys = await listKeys(database, { now });
    if (options.json) return printJson(surroundings, keys.map(toJson));
    printTable(
      surroundings,
      keys.map((key) => ({
        id: key.id,
        key: key.hint,
        email: key.email,
        tier: key.tier,
        mode: key.mode,
        state: key.state,
        used: key.used,
        limit: key.monthlyLimit ?? "unlimited",
        "expires at": key.expiresAt,
      })),
    );
  });
}

/** A key of 58 characters and a newline: anything much longer is none. */
const KEY_INPUT_LIMIT_BYTES = 1_024;

async function find(surroundings: Surroundings, options: Json): Promise<void> {
  const input = await surroundings.readInput(KEY_INPUT_LIMIT_BYTES);
  await withInstallation(surroundings, options, async (workplace: Workplace) => {
    const key = input?.trim() ?? "";
    if (!keyPattern(workplace.config.brand).test(key)) {
      throw new CommandRefused("Cannot find key: standard input does not hold a key of this brand");
    }
    show(surroundings, options, await findKey(workplace.database, { hash: hashApiKey(key) }, workplace));
  });
}

function show(surroundings: Surroundings, options: Json, key: KeySummary | undefined): void {
  if (key === undefined) throw new CommandRefused("Cannot show key: there is no such key");
  if (options.json) printJson(surroundings, toJson(key));
  else printFields(surroundings, toJson(key));
}

function toJson(key: KeySummary): Readonly<Record<string, unknown>> {
  return {
    id: key.id,
    key: key.hint,
    user_id: key.userId,
    license_id: key.licenseId,
    email: key.email,
    name: key.name,
    organization: key.organization,
    tier: key.tier,
    mode: key.mode,
    state: key.state,
    monthly_limit: key.monthlyLimit,
    used: key.used,
    expires_at: toTimestamp(key.expiresAt),
    created_at: toTimestamp(key.createdAt),
  };
}

/** A file of keys is read whole before anything is written: this many lines at most. */
const MAX_IMPORT_LINES = 2_000_000;

async function runImport(surroundings: Surroundings, file: string, options: Json): Promise<void> {
  await withInstallation(surroundings, options, async ({ config, address, actor, now }) => {
    const keys: ImportedKey[] = [];
    let number = 0;
    for await (const line of createInterface({
      input: createReadStream(file),
      crlfDelay: Number.POSITIVE_INFINITY,
    })) {
      number++;
      if (line.trim() === "") continue;
      if (keys.length === MAX_IMPORT_LINES) {
        throw new CommandRefused(
          `Cannot import keys: the file has more than ${MAX_IMPORT_LINES} lines; split it`,
        );
      }
      const key = parseImportLine(line, config.brand);
      if (isRefusal(key)) throw new CommandRefused(`Cannot import keys: line ${number}: ${key.sentence}`);
      keys.push(key);
    }
    const session = openSession(address, { statementTimeoutMs: 120_000 });
    try {
      const { imported } = orRefuse(
        await importKeys(session, keys, {
          actor,
          now,
          usagePart: (sql) => importedUsagePart(sql, monthOf(now.getTime())),
          onProgress: (done) => showProgress(surroundings, done, keys.length),
        }),
      );
      if (options.json) printJson(surroundings, { imported });
      else surroundings.out(`Imported ${imported} keys\n`);
    } finally {
      await session.close();
    }
  });
}

function showProgress(surroundings: Surroundings, done: number, total: number): void {
  if (!surroundings.isTerminal) return;
  const width = 40;
  const filled = Math.round((done / total) * width);
  surroundings.err(
    `\r[${"#".repeat(filled)}${" ".repeat(width - filled)}] ${done} of ${total}${done === total ? "\n" : ""}`,
  );
}
