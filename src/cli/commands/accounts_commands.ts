/** `claviger accounts …`: list, usage, update, renew and erase. */
import type { Command } from "commander";
import { type Month, monthOf } from "../../calendar.ts";
import type { Database } from "../../database/mod.ts";
import {
  type Account,
  createLicenseChanges,
  eraseAccount,
  findAccountNamed,
  listAccounts,
  renderAccount,
  renderRenewal,
  renewAccount,
  updateAccount,
} from "../../licensing/mod.ts";
import { findUsageByMonth, renderUsageByMonth } from "../../usage/mod.ts";
import { type ConfirmOptions, confirm, withConfirmation } from "../confirm.ts";
import { type ListOptions, partOf, showPart, withListOptions } from "../list_options.ts";
import {
  accountOption,
  type ChangeOptions,
  fieldOption,
  type JsonOptions,
  monthOption,
  textOption,
  withJsonOptions,
  withReason,
} from "../options.ts";
import { counted, printFields, printJson, printLine, printNote, printTable } from "../print.ts";
import { orRefuse, withDatabase } from "../run.ts";
import type { Surroundings } from "../surroundings.ts";
import { withBars } from "../text_bars.ts";

export function addAccountsCommands(program: Command, surroundings: Surroundings): void {
  const accounts = program.command("accounts").description("list, change and erase accounts");

  withListOptions(withJsonOptions(accounts.command("list")), { kind: "usr" })
    .description("list accounts, oldest first")
    .action((options: JsonOptions & ListOptions) =>
      withDatabase(surroundings, options, async ({ database }) => {
        const part = await partOf(surroundings, database, options);
        const found = (await listAccounts(database, part)).map(renderAccount);
        const show = options.json ? printJson : printTable<(typeof found)[number]>;
        showPart(surroundings, { ...options, found, show: (rows) => show(surroundings, rows) });
      }),
    );

  withJsonOptions(accounts.command("usage"))
    .description("show what the licenses of an account used together in each of twelve months")
    .argument("<account>", "the account's id or e-mail", accountOption)
    .option("--month <month>", "the last month, such as 2026-11; by default this month", monthOption)
    .action((account: string, options: JsonOptions & { readonly month?: Month }) =>
      showUsage(surroundings, account, options),
    );

  const update = withJsonOptions(accounts.command("update"))
    .description("change an account's name or organization")
    .argument("<account>", "the account's id or e-mail", accountOption)
    .option("--name <name>", "the new name", fieldOption("name"))
    .option("--organization <organization>", "the new organization", fieldOption("organization"))
    .action((account: string, options: UpdateOptions) => {
      if (options.name === undefined && options.organization === undefined) {
        update.error("error: give --name or --organization");
      }
      return runUpdate(surroundings, account, options);
    });

  withReason(withJsonOptions(accounts.command("renew")))
    .description("add a year to every license of an account that expires and has a key that is not revoked")
    .argument("<account>", "the account's id or e-mail", accountOption)
    .action((who: string, options: ChangeOptions) =>
      withDatabase(surroundings, options, async ({ database, actor, now }) => {
        const { uuid } = await findAccountBy(database, who, "renew account");
        const renewed = await renewAccount(createLicenseChanges(database), uuid, { actor, now });
        const shown = renderRenewal(uuid, renewed);
        if (options.json) return printJson(surroundings, shown);
        printTable(surroundings, shown.licenses);
        if (renewed.length === 0)
          printNote(
            surroundings,
            "Nothing changed: no license can be renewed, or each one was renewed in the last 24 hours",
          );
      }),
    );

  withConfirmation(withJsonOptions(accounts.command("erase")))
    .description("remove a person's name, e-mail and organization for good, and keep the counts of use")
    .argument("<account>", "the account's id or e-mail", accountOption)
    .option("--reason <text>", "the reason, for the audit log; do not name the person", textOption(0, 2_000))
    .action((who: string, options: EraseOptions) => erase(surroundings, who, options));
}

async function showUsage(
  surroundings: Surroundings,
  who: string,
  options: JsonOptions & { readonly month?: Month },
): Promise<void> {
  await withDatabase(surroundings, options, async ({ database, now }) => {
    const { id, uuid } = await findAccountBy(database, who, "show usage");
    const last = options.month ?? monthOf(now.getTime());
    const use = renderUsageByMonth(id, await findUsageByMonth(database, uuid, last));
    if (options.json) return printJson(surroundings, use);
    const rows = use.months.map((month) => ({ ...month }));
    printTable(surroundings, withBars(rows, { of: "used", columns: surroundings.columns }));
  });
}

type EraseOptions = ConfirmOptions & ChangeOptions;

async function erase(surroundings: Surroundings, who: string, options: EraseOptions): Promise<void> {
  await withDatabase(surroundings, options, async (context) => {
    const { database, actor, now } = context;
    const account = await findAccountBy(database, who);
    const { id, uuid, email } = account;
    const by = { actor, now };
    const { isPersonal } = orRefuse(await eraseAccount(database, uuid, { ...by, isDryRun: true }));
    const tell = (shown: object, line: string) =>
      options.json ? printJson(surroundings, shown) : printLine(surroundings, line);
    if (!isPersonal)
      return tell({ id, erased: true, changed: false }, `Nothing changed: ${id} is erased already`);
    if (options.dryRun) {
      const held = counted(account.keys, "revoked key");
      return tell({ id, erased: false, dry_run: true }, `Would erase ${id} (${email}), which has ${held}`);
    }
    const question = `Erase ${id} (${email})? No command brings back the name, e-mail and organization.`;
    await confirm(surroundings, question, { ...context, options });
    orRefuse(await eraseAccount(database, uuid, by));
    tell({ id, erased: true, changed: true }, `Erased ${id}`);
  });
}

/**
 * Finds an account by its id or its e-mail; ends the command if there is none. `what` is the action that the refusal
 * names.
 */
export async function findAccountBy(
  database: Database,
  who: string,
  what = "find account",
): Promise<Account> {
  return orRefuse(await findAccountNamed(database, who, what));
}

interface UpdateOptions extends JsonOptions {
  readonly name?: string;
  readonly organization?: string;
}

async function runUpdate(surroundings: Surroundings, who: string, options: UpdateOptions): Promise<void> {
  await withDatabase(surroundings, options, async ({ database, actor, now }) => {
    const account = await findAccountBy(database, who);
    const { name, organization } = options;
    const changed = orRefuse(
      await updateAccount(database, { name, organization, uuid: account.uuid, actor, now }),
    );
    const { isChanged, ...fields } = changed;
    const shown = { id: account.id, ...fields };
    if (options.json) return printJson(surroundings, { ...shown, changed: isChanged });
    printFields(surroundings, shown);
    if (!isChanged)
      printNote(surroundings, "Nothing changed: the account has this name and organization already");
  });
}
