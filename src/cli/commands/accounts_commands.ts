/** `claviger accounts …`: list, usage, update, renew and erase. */
import type { Command } from "commander";
import { REASON_TEXT } from "../../audit/mod.ts";
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
  TEXTS,
  updateAccount,
} from "../../licensing/mod.ts";
import { findUsageByMonth, renderUsageByMonth } from "../../usage/mod.ts";
import { type ConfirmOptions, confirm, withConfirmation } from "../confirm.ts";
import type { Invocation } from "../invocation.ts";
import { type ListOptions, partOf, showPart, withListOptions } from "../list_options.ts";
import {
  accountOption,
  type ChangeOptions,
  type JsonOptions,
  monthOption,
  parsedOption,
  withJsonOptions,
  withReason,
} from "../options.ts";
import { counted, printFields, printJson, printLine, printNote, printTable } from "../print.ts";
import { orRefuse, withDatabase } from "../run.ts";
import { withBars } from "../text_bars.ts";

export function addAccountsCommands(program: Command, invocation: Invocation): void {
  const accounts = program.command("accounts").description("list, change and erase accounts");

  withListOptions(withJsonOptions(accounts.command("list")), { kind: "usr" })
    .description("list accounts, oldest first")
    .action((options: JsonOptions & ListOptions) =>
      withDatabase(invocation, options, async ({ database }) => {
        const part = await partOf(invocation, database, options);
        const found = (await listAccounts(database, part)).map(renderAccount);
        const show = options.json ? printJson : printTable<(typeof found)[number]>;
        showPart(invocation, { ...options, found, show: (rows) => show(invocation, rows) });
      }),
    );

  withJsonOptions(accounts.command("usage"))
    .description("show what the licenses of an account used together in each of twelve months")
    .argument("<account>", "the account's id or e-mail", accountOption)
    .option("--month <month>", "the last month, such as 2026-11; by default this month", monthOption)
    .action((account: string, options: JsonOptions & { readonly month?: Month }) =>
      showUsage(invocation, account, options),
    );

  const update = withJsonOptions(accounts.command("update"))
    .description("change an account's name or organization")
    .argument("<account>", "the account's id or e-mail", accountOption)
    .option("--name <name>", "the new name", parsedOption(TEXTS.name))
    .option("--organization <organization>", "the new organization", parsedOption(TEXTS.organization))
    .action((account: string, options: UpdateOptions) => {
      if (options.name === undefined && options.organization === undefined) {
        update.error("error: give --name or --organization");
      }
      return runUpdate(invocation, account, options);
    });

  withReason(withJsonOptions(accounts.command("renew")))
    .description("add a year to every license of an account that expires and has a key that is not revoked")
    .argument("<account>", "the account's id or e-mail", accountOption)
    .action((who: string, options: ChangeOptions) =>
      withDatabase(invocation, options, async ({ database, actor, now }) => {
        const { uuid } = await findAccountBy(database, who, "renew account");
        const renewed = await renewAccount(createLicenseChanges(database), uuid, { actor, now });
        const shown = renderRenewal(uuid, renewed);
        if (options.json) return printJson(invocation, shown);
        printTable(invocation, shown.licenses);
        if (renewed.length === 0)
          printNote(
            invocation,
            "Nothing changed: no license can be renewed, or each one was renewed in the last 24 hours",
          );
      }),
    );

  withConfirmation(withJsonOptions(accounts.command("erase")))
    .description("remove a person's name, e-mail and organization for good, and keep the counts of use")
    .argument("<account>", "the account's id or e-mail", accountOption)
    .option(
      "--reason <text>",
      "the reason, for the audit log; do not name the person",
      parsedOption(REASON_TEXT),
    )
    .action((who: string, options: EraseOptions) => erase(invocation, who, options));
}

async function showUsage(
  invocation: Invocation,
  who: string,
  options: JsonOptions & { readonly month?: Month },
): Promise<void> {
  await withDatabase(invocation, options, async ({ database, now }) => {
    const { id, uuid } = await findAccountBy(database, who, "show usage");
    const last = options.month ?? monthOf(now.getTime());
    const use = renderUsageByMonth(id, await findUsageByMonth(database, uuid, last));
    if (options.json) return printJson(invocation, use);
    const rows = use.months.map((month) => ({ ...month }));
    printTable(invocation, withBars(rows, { of: "used", columns: invocation.columns }));
  });
}

type EraseOptions = ConfirmOptions & ChangeOptions;

async function erase(invocation: Invocation, who: string, options: EraseOptions): Promise<void> {
  await withDatabase(invocation, options, async (context) => {
    const { database, actor, now } = context;
    const account = await findAccountBy(database, who);
    const { id, uuid, email } = account;
    const by = { actor, now };
    const { isPersonal } = orRefuse(await eraseAccount(database, uuid, { ...by, isDryRun: true }));
    const tell = (shown: object, line: string) =>
      options.json ? printJson(invocation, shown) : printLine(invocation, line);
    if (!isPersonal)
      return tell({ id, erased: true, changed: false }, `Nothing changed: ${id} is erased already`);
    if (options.dryRun) {
      const held = counted(account.keys, "revoked key");
      return tell({ id, erased: false, dry_run: true }, `Would erase ${id} (${email}), which has ${held}`);
    }
    const question = `Erase ${id} (${email})? No command brings back the name, e-mail and organization.`;
    await confirm(invocation, question, { ...context, options });
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

async function runUpdate(invocation: Invocation, who: string, options: UpdateOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ database, actor, now }) => {
    const account = await findAccountBy(database, who);
    const { name, organization } = options;
    const changed = orRefuse(
      await updateAccount(database, { name, organization, uuid: account.uuid, actor, now }),
    );
    const { isChanged, ...fields } = changed;
    const shown = { id: account.id, ...fields };
    if (options.json) return printJson(invocation, { ...shown, changed: isChanged });
    printFields(invocation, shown);
    if (!isChanged)
      printNote(invocation, "Nothing changed: the account has this name and organization already");
  });
}
