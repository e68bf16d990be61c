/** `claviger tokens …`: issue, list, renew, revoke and resume the tokens of programs that use the API for operators. */
import { InvalidArgumentError } from "commander";
import { END, toTimestamp } from "../../base/calendar.ts";
import { type ParsingRule, someOf } from "../../base/rule.ts";
import { EXPIRY, MODES, TIERS } from "../../licensing/mod.ts";
import {
  issueToken,
  isTooWide,
  type ListedToken,
  limitsOfToken,
  listTokens,
  meaningOf,
  NAME_RULE,
  PRESET_NAMES,
  renewToken,
  resumeToken,
  revokeToken,
  SCOPES,
  SCOPES_RULE,
  SOURCES_RULE,
  scopesOfToken,
  toRestriction,
} from "../../operators/mod.ts";
import { command, databaseCommand, group } from "../command.ts";
import { CONFIRMATION, JSON_OPTIONS, REASON, SHORTEN } from "../options.ts";
import { option, required } from "../parameter.ts";
import { orRefuse, WrongUsage, withDatabase } from "../run.ts";

const NAME = { name: required("the token's name", NAME_RULE) };
const ONCE = "The token is shown only once: store it now";

const issue = command({
  name: "issue",
  description: "issue a token; it is shown only once",
  options: {
    ...JSON_OPTIONS,
    name: required("the token's name, for the audit log", NAME_RULE),
    preset: option(
      "the scopes that a program of this kind needs: a shop, monitoring, a pipeline, a CRM",
      PRESET_NAMES,
    ),
    scope: option(
      "what the token may do, separated by commas; beside a preset, what it may do more",
      listOf(someOf(SCOPES)),
      { as: "scopes", choices: SCOPES },
    ),
    tiers: option(
      "see, change and issue only keys of these tiers, separated by commas; by default all",
      listOf(someOf(TIERS)),
      { choices: TIERS },
    ),
    mode: option("see, change and issue only keys of this mode; by default both", MODES),
    expiresAt: option(
      "when the token expires: its last day, or a time in ISO 8601; by default it does not",
      END,
      { as: "time" },
    ),
    from: option(
      "only requests from these addresses and networks, separated by commas, such as 10.0.0.0/8",
      listOf(SOURCES_RULE),
      { as: "networks" },
    ),
  },
  async run({ preset, scope, from: sources, ...values }, { invocation, print }) {
    const { name, tiers, mode, expiresAt } = values;
    const scopes = scopesOfToken({ preset, scopes: scope });
    if (scopes.length === 0) throw new WrongUsage("Cannot issue token: it needs --preset or --scope");
    const restriction = toRestriction({ scopes, tiers, mode });
    if (isTooWide(restriction, scopes)) throw new WrongUsage(`Cannot issue token: ${SCOPES_RULE}`);
    await withDatabase(invocation, values, async ({ config: { brand }, database, actor, now }) => {
      const request = { name, scopes, restriction, sources, expiresAt };
      const { token } = orRefuse(await issueToken(database, request, { brand, actor, now }));
      const ends = expiresAt ? toTimestamp(expiresAt) : null;
      const rest = { tiers: tiers ?? null, mode: mode ?? null, from: sources ?? null, expires_at: ends };
      if (values.json) return print.document({ name, token, scopes, ...rest });
      print.fields({ name, token, ...limitsOfToken(request), expires_at: ends ?? "never" });
      print.note(ONCE);
      const meaning = meaningOf(restriction);
      if (meaning !== undefined) print.note(meaning);
    });
  },
});

const list = databaseCommand({
  name: "list",
  description: "list tokens by name, including revoked tokens",
  async run(_values, { database, now, print }) {
    const found = await listTokens(database, { now });
    print.table(found.map(toTableRow), found.map(toJson));
  },
});

const renew = databaseCommand({
  name: "renew",
  description: "give a token a new secret, which is shown only once; the old one is refused at once",
  arguments: NAME,
  options: {
    ...REASON,
    expiresAt: option(
      "another expiry: its last day, a time in ISO 8601, or never; by default unchanged",
      EXPIRY,
      {
        as: "time",
      },
    ),
    ...SHORTEN,
  },
  async run({ name, expiresAt, shorten }, { config: { brand }, database, actor, now, print }) {
    const change = { name, expiresAt, shorten };
    const renewed = orRefuse(await renewToken(database, change, { brand, actor, now }));
    const { token, state } = renewed;
    const [was, ends] = [renewed.was, renewed.expiresAt].map((at) =>
      at === null ? "never" : toTimestamp(at),
    );
    print.fields({ name, token, state });
    if (was !== ends) print.note(`Changed: expiry from ${was} to ${ends}`);
    print.note(ONCE);
    if (state === "disabled")
      print.note(`A restore disabled the token: \`claviger tokens resume ${name}\` lets it in again`);
  },
});

const revoke = databaseCommand({
  name: "revoke",
  description: "revoke a token for good; it is refused at once",
  arguments: NAME,
  options: { ...REASON, ...CONFIRMATION },
  async run({ name, dryRun }, { database, actor, now, print, confirm }) {
    const by = { actor, now };
    const { state } = orRefuse(await revokeToken(database, name, { ...by, isDryRun: true }));
    if (state === "revoked")
      return print.line(`Nothing changed: ${name} is revoked already`, { name, state, changed: false });
    if (dryRun) return print.line(`Would revoke ${name}, which is ${state}`, { name, state, dry_run: true });
    await confirm(`Revoke ${name}? A revoked token never works again.`);
    const { isChanged } = orRefuse(await revokeToken(database, name, by));
    print.line(`Revoked ${name}`, { name, state: "revoked", changed: isChanged });
  },
});

const resume = databaseCommand({
  name: "resume",
  description: "resume a token that a restore disabled",
  arguments: NAME,
  options: REASON,
  async run({ name }, { database, actor, now, print }) {
    const { isChanged, state: before } = orRefuse(await resumeToken(database, name, { actor, now }));
    // An expired token is resumed too, and stays expired.
    const state = isChanged ? "active" : before;
    print.fields({ name, state }, { changed: isChanged });
    if (!isChanged) print.note("Nothing changed: the token is not disabled");
  },
});

export const tokens = group(
  "tokens",
  "let programs use the API for operators, each with a token of its own",
  [issue, list, renew, revoke, resume],
);

/** Returns the reader of a list. An option that is given twice has the values of both. */
function listOf<Each extends string>({ expects, parse }: ParsingRule<readonly Each[]>) {
  return (text: string, before: readonly Each[] = []) => {
    const values = parse([...before, text].join(","));
    if (values !== undefined) return values;
    throw new InvalidArgumentError(`It must be ${expects}, separated by commas`);
  };
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
