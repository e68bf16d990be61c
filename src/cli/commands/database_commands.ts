/** `claviger migrate` and `claviger audit`. */
import { type Command, Option } from "commander";
import {
  ACTIONS,
  ACTOR_TEXT,
  type AuditRow,
  describeChanges,
  type FieldChange,
  listAudit,
  renderAuditRow,
} from "../../audit/mod.ts";
import { toTimestamp } from "../../calendar.ts";
import { migrate, migrationStatus, migrations } from "../../database/mod.ts";
import type { Invocation } from "../invocation.ts";
import {
  accountOption,
  idOption,
  type JsonOptions,
  parsedOption,
  timestampOption,
  wholeNumberOption,
  withJsonOptions,
  withWords,
} from "../options.ts";
import { printJson, printNote, printTable } from "../print.ts";
import { CommandRefused, orRefuse, readSettings, withDatabase, withInstallation } from "../run.ts";
import { findAccountBy } from "./accounts_commands.ts";

interface AuditOptions extends JsonOptions {
  readonly limit: number;
  readonly key?: string;
  readonly account?: string;
  readonly actor?: string;
  readonly action?: string;
  readonly since?: Date;
  readonly until?: Date;
}

const MAX_AUDIT_ROWS = 100_000;

export function addDatabaseCommands(program: Command, invocation: Invocation): void {
  withJsonOptions(program.command("migrate"))
    .description("bring a new or existing database to this version's schema")
    .option("--status", "only show which migrations are applied and which are not", false)
    .action((options: JsonOptions & { readonly status: boolean }) => runMigrate(invocation, options));

  withJsonOptions(program.command("audit"))
    .description("show who changed what, newest first")
    .option("--limit <n>", "show at most this many rows", wholeNumberOption(1, MAX_AUDIT_ROWS), 100)
    .option("--key <id>", "only changes of this key", idOption("key"))
    .option("--account <account>", "only changes of this account, by its id or e-mail", accountOption)
    .option("--actor <actor>", "only changes by this actor, such as token:shop", parsedOption(ACTOR_TEXT))
    .addOption(withWords(new Option("--action <action>", "only changes of this kind"), ACTIONS))
    .option("--since <time>", "only changes at or after this time, ISO 8601", timestampOption)
    .option("--until <time>", "only changes before this time, ISO 8601", timestampOption)
    .action((options: AuditOptions) => audit(invocation, options));
}

async function audit(invocation: Invocation, options: AuditOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ database }) => {
    const account =
      options.account === undefined
        ? undefined
        : await findAccountBy(database, options.account, "show audit log");
    const { limit } = options;
    const rows = await listAudit(database, {
      ...options,
      // One row more than is shown tells whether there are more.
      limit: limit + 1,
      keyUuid: options.key,
      accountUuid: account?.uuid,
    });
    const shown = rows.slice(0, limit);
    if (options.json) printJson(invocation, shown.map(renderAuditRow));
    else printTable(invocation, shown.map(toShown));
    if (rows.length <= limit) return;
    printNote(
      invocation,
      `There are older rows: raise --limit above ${limit}, or show the rows before a time with --until`,
    );
  });
}

/** Returns the cells of a row for people. The last cell joins all that other rows may lack, so that no cell is empty. */
function toShown({ id, at, actor, action, before, after, reason, request, address, ...row }: AuditRow) {
  const details = [
    ...describeChanges(before, after).map(toWords),
    ...[row.keyId, row.licenseId, row.userId].filter((each) => each !== null),
    ...(request === null ? [] : [request]),
    ...(address === null ? [] : [`from ${address}`]),
    // The reason is free text, so it is last: no part of it can pass for another detail.
    ...(reason === null ? [] : [`reason: ${reason}`]),
  ];
  return { id, at, actor, action, details: details.join("; ") };
}

function toWords({ field, before, after }: FieldChange): string {
  if (before === undefined) return `${field}: ${after}`;
  return after === undefined ? `${field} was ${before}` : `${field} from ${before} to ${after}`;
}

async function runMigrate(
  invocation: Invocation,
  options: JsonOptions & { readonly status: boolean },
): Promise<void> {
  const config = readSettings(invocation, options);
  const create = !options.status;
  await withInstallation(invocation, { config, create }, async ({ address }) => {
    if (create) {
      orRefuse(await migrate(address, migrations));
    }
    const status = await migrationStatus(address, migrations);
    if (status.refusal !== undefined) throw new CommandRefused(status.refusal.sentence);
    const shown = [
      ...status.applied.map(({ number, name, appliedAt }) => ({
        number,
        name,
        applied_at: toTimestamp(appliedAt),
      })),
      ...status.pending.map(({ number, name }) => ({ number, name, applied_at: null })),
    ];
    if (options.json) printJson(invocation, shown);
    else printTable(invocation, shown);
  });
}
