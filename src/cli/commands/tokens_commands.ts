/** `claviger tokens …`: issue, list, renew, revoke and resume the tokens of programs that use the API for operators. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { toTimestamp } from "../../calendar.ts";
import { type KeyMode, MODES, TIERS, type Tier } from "../../licensing/mod.ts";
import { parseTrustedProxies } from "../../limits/mod.ts";
import {
  issueToken,
  isTooWide,
  type ListedToken,
  limitsOfToken,
  listTokens,
  MAX_SOURCES,
  meaningOf,
  renewToken,
  resumeToken,
  revokeToken,
  SCOPES,
  SCOPES_RULE,
  type Scope,
} from "../../operators/mod.ts";
import { type ConfirmOptions, confirm, withConfirmation } from "../confirm.ts";
import type { Invocation } from "../invocation.ts";
import {
  type ChangeOptions,
  type JsonOptions,
  timestampOption,
  withJsonOptions,
  withReason,
  withWords,
} from "../options.ts";
import { printFields, printJson, printLine, printNote, printTable } from "../print.ts";
import { orRefuse, WrongUsage, withDatabase } from "../run.ts";
import { nameOption } from "./operators_commands.ts";

export function addTokensCommands(program: Command, invocation: Invocation): void {
  const tokens = program
    .command("tokens")
    .description("let programs use the API for operators, each with a token of its own");

  withJsonOptions(tokens.command("issue"))
    .description("issue a token; it is shown only once")
    .requiredOption("--name <name>", "the token's name, for the audit log", nameOption)
    .addOption(
      new Option("--scope <scopes>", "what the token may do, separated by commas")
        .choices(SCOPES)
        .argParser(listOf(SCOPES))
        .makeOptionMandatory(),
    )
    .addOption(
      new Option(
        "--tiers <tiers>",
        "see, change and issue only keys of these tiers, separated by commas; by default all",
      )
        .choices(TIERS)
        .argParser(listOf(TIERS)),
    )
    .addOption(
      withWords(
        new Option("--mode <mode>", "see, change and issue only keys of this mode; by default both"),
        MODES,
      ),
    )
    .option(
      "--expires-at <time>",
      "when the token expires, ISO 8601; by default it does not",
      timestampOption,
    )
    .option(
      "--from <networks>",
      "only requests from these addresses and networks, separated by commas, such as 10.0.0.0/8",
      networksOption,
    )
    .action((options: IssueOptions) => issue(invocation, options));

  withJsonOptions(tokens.command("list"))
    .description("list tokens by name, including revoked tokens")
    .action((options: JsonOptions) =>
      withDatabase(invocation, options, async ({ database, now }) => {
        const found = await listTokens(database, { now });
        if (options.json) printJson(invocation, found.map(toJson));
        else printTable(invocation, found.map(toTableRow));
      }),
    );

  withReason(withJsonOptions(tokens.command("renew")))
    .description("give a token a new secret, which is shown only once; the old one is refused at once")
    .argument("<name>", "the token's name", nameOption)
    .option("--expires-at <time>", "another expiry: ISO 8601, or never; by default unchanged", endOption)
    .action((name: string, options: RenewOptions) => renew(invocation, name, options));

  withConfirmation(withReason(withJsonOptions(tokens.command("revoke"))))
    .description("revoke a token for good; it is refused at once")
    .argument("<name>", "the token's name", nameOption)
    .action((name: string, options: RevokeOptions) => revoke(invocation, name, options));

  withReason(withJsonOptions(tokens.command("resume")))
    .description("resume a token that a restore disabled")
    .argument("<name>", "the token's name", nameOption)
    .action((name: string, options: ChangeOptions) =>
      withDatabase(invocation, options, async ({ database, actor, now }) => {
        const resumed = orRefuse(await resumeToken(database, name, { actor, now }));
        const { isChanged, state: before } = resumed;
        // An expired token is resumed too, and stays expired.
        const state = isChanged ? "active" : before;
        if (options.json) return printJson(invocation, { name, state, changed: isChanged });
        printFields(invocation, { name, state });
        if (!isChanged) printNote(invocation, "Nothing changed: the token is not disabled");
      }),
    );
}

type RevokeOptions = ConfirmOptions & ChangeOptions;

interface IssueOptions extends JsonOptions {
  readonly name: string;
  readonly scope: readonly Scope[];
  readonly tiers?: readonly Tier[];
  readonly mode?: KeyMode;
  readonly expiresAt?: Date;
  readonly from?: readonly string[];
}

interface RenewOptions extends ChangeOptions {
  readonly expiresAt?: Date | "never";
}

/** Returns the reader of a list of words that are allowed. An option that is given twice has the words of both. */
function listOf<Word extends string>(
  allowed: readonly Word[],
): (text: string, before?: readonly Word[]) => readonly Word[] {
  return (text, before = []) => {
    const words = new Set<string>([...before, ...text.split(",").map((word) => word.trim())]);
    const known = allowed.filter((word) => words.has(word));
    if (known.length === words.size) return known;
    throw new InvalidArgumentError(`It must be one or more of ${allowed.join(", ")}, separated by commas`);
  };
}

function networksOption(text: string, before: readonly string[] = []): readonly string[] {
  const networks = [...before, ...text.split(",").map((network) => network.trim())];
  const isRight = (network: string) => {
    const parsed = parseTrustedProxies(network);
    return parsed.ok && parsed.proxies.length === 1;
  };
  if (networks.length <= MAX_SOURCES && networks.every(isRight)) return networks;
  throw new InvalidArgumentError(
    `It must be at most ${MAX_SOURCES} addresses and networks such as 10.0.0.0/8, separated by commas`,
  );
}

/** Reads a timestamp, or `never`, which stays a text: commander turns null into an empty text. */
function endOption(text: string): Date | "never" {
  return text === "never" ? text : timestampOption(text);
}

const ONCE = "The token is shown only once: store it now";

async function issue(invocation: Invocation, options: IssueOptions): Promise<void> {
  const { name, scope: scopes, tiers, mode, expiresAt, from: sources } = options;
  const restriction = { tiers, mode, joins: scopes.includes("accounts:join") };
  if (isTooWide(restriction, scopes)) throw new WrongUsage(`Cannot issue token: ${SCOPES_RULE}`);
  await withDatabase(invocation, options, async ({ config: { brand }, database, actor, now }) => {
    const request = { name, scopes, restriction, sources, expiresAt };
    const { token } = orRefuse(await issueToken(database, request, { brand, actor, now }));
    const ends = expiresAt ? toTimestamp(expiresAt) : null;
    const rest = { tiers: tiers ?? null, mode: mode ?? null, from: sources ?? null, expires_at: ends };
    if (options.json) return printJson(invocation, { name, token, scopes, ...rest });
    printFields(invocation, {
      name,
      token,
      ...limitsOfToken(request),
      expires_at: ends ?? "never",
    });
    printNote(invocation, ONCE);
    const meaning = meaningOf(restriction);
    if (meaning !== undefined) printNote(invocation, meaning);
  });
}

async function renew(invocation: Invocation, name: string, options: RenewOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ config: { brand }, database, actor, now }) => {
    const by = { brand, actor, now };
    const expiresAt = options.expiresAt === "never" ? null : options.expiresAt;
    const { token, state } = orRefuse(await renewToken(database, { name, expiresAt }, by));
    if (options.json) return printJson(invocation, { name, token, state });
    printFields(invocation, { name, token, state });
    printNote(invocation, ONCE);
    if (state !== "disabled") return;
    printNote(
      invocation,
      `A restore disabled the token: \`claviger tokens resume ${name}\` lets it in again`,
    );
  });
}

async function revoke(invocation: Invocation, name: string, options: RevokeOptions): Promise<void> {
  await withDatabase(invocation, options, async (context) => {
    const { database, actor, now } = context;
    const by = { actor, now };
    const { state } = orRefuse(await revokeToken(database, name, { ...by, isDryRun: true }));
    const tell = (shown: object, line: string) =>
      options.json ? printJson(invocation, shown) : printLine(invocation, line);
    if (state === "revoked") {
      return tell({ name, state, changed: false }, `Nothing changed: ${name} is revoked already`);
    }
    if (options.dryRun)
      return tell({ name, state, dry_run: true }, `Would revoke ${name}, which is ${state}`);
    await confirm(invocation, `Revoke ${name}? A revoked token never works again.`, {
      ...context,
      options,
    });
    const { isChanged } = orRefuse(await revokeToken(database, name, by));
    tell({ name, state: "revoked", changed: isChanged }, `Revoked ${name}`);
  });
}

function toJson(token: ListedToken) {
  return {
    name: token.name,
    state: token.state,
    scopes: token.scopes,
    tiers: token.restriction.tiers ?? null,
    mode: token.restriction.mode ?? null,
    from: token.sources ?? null,
    created_by: token.createdBy,
    created_at: toTimestamp(token.createdAt),
    renewed_at: toTimestamp(token.renewedAt),
    expires_at: token.expiresAt && toTimestamp(token.expiresAt),
    last_used_at: token.lastUsedAt && toTimestamp(token.lastUsedAt),
  };
}

function toTableRow(token: ListedToken) {
  const { name, state, expires_at, last_used_at, created_by, created_at } = toJson(token);
  const [first, ...others] = token.sources ?? [];
  const row = { name, state, expires_at: expires_at ?? "never", last_used_at, created_by, created_at };
  const limits = limitsOfToken(token);
  return others.length === 0
    ? { ...row, ...limits }
    : { ...row, ...limits, from: `${first} and ${others.length} more` };
}
