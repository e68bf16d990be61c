/** `claviger accounts …`: list, update and erase. */
import type { Command } from "commander";
import { toTimestamp } from "../calendar.ts";
import type { Database } from "../database/mod.ts";
import { parseId } from "../ids.ts";
import {
  type Account,
  eraseAccount,
  findAccount,
  listAccounts,
  parseEmail,
  updateAccount,
} from "../licensing/mod.ts";
import { type JsonOptions, textOption, withJson, withPlace } from "./options.ts";
import { printFields, printJson, printTable } from "./print.ts";
import { CommandRefused, orRefuse, readSettings, withDatabase } from "./run.ts";
import type { Surroundings } from "./surroundings.ts";

export function addAccountsCommands(program: Command, surroundings: Surroundings): void {
  const accounts = program.command("accounts").description("look at and change accounts");

  withPlace(withJson(accounts.command("list")))
    .description("list all accounts")
    .action((options: JsonOptions) =>
      withDatabase(surroundings, readSettings(surroundings, options), async ({ database }) => {
        const rows = (await listAccounts(database)).map((account) => ({
          id: account.id,
          email: account.email,
          name: account.name,
          organization: account.organization,
          keys: account.keys,
          created_at: toTimestamp(account.createdAt),
        }));
        if (options.json) printJson(surroundings, rows);
        else printTable(surroundings, rows);
      }),
    );

  const update = withPlace(withJson(accounts.command("update")))
    .description("change an account's name or organization")
    .argument("<account>", "the account's id or e-mail")
    .option("--name <name>", "the new name", textOption(1, 200))
    .option("--organization <organization>", "the new organization", textOption(0, 200))
    .action((account: string, options: UpdateOptions) => {
      if (options.name === undefined && options.organization === undefined) {
        update.error("error: give --name or --organization");
      }
      return runUpdate(surroundings, account, options);
    });

  withPlace(withJson(accounts.command("erase")))
    .description("remove a person's name and e-mail for good, and keep the counts")
    .argument("<account>", "the account's id or e-mail")
    .option("--reason <text>", "for the audit log; do not name the person", textOption(0, 2_000))
    .action((who: string, options: JsonOptions & { readonly reason?: string }) =>
      withDatabase(surroundings, readSettings(surroundings, options), async ({ database, actor, now }) => {
        const account = await findAccountBy(database, who);
        const by = { actor: { ...actor, reason: options.reason }, now };
        orRefuse(await eraseAccount(database, account.uuid, by));
        if (options.json) printJson(surroundings, { id: account.id, erased: true });
        else surroundings.out(`Erased ${account.id}\n`);
      }),
    );
}

/** Finds an account by what people name it by, its id or its e-mail; ends the command where there is none. */
export async function findAccountBy(
  database: Database,
  who: string,
  what = "find account",
): Promise<Account> {
  const uuid = parseId("usr", who);
  const email = parseEmail(who);
  const account =
    uuid !== undefined
      ? await findAccount(database, { uuid })
      : email && (await findAccount(database, { email }));
  if (!account) throw new CommandRefused(`Cannot ${what}: no account has the id or e-mail ${who}`);
  return account;
}

interface UpdateOptions extends JsonOptions {
  readonly name?: string;
  readonly organization?: string;
}

async function runUpdate(surroundings: Surroundings, who: string, options: UpdateOptions): Promise<void> {
  await withDatabase(surroundings, readSettings(surroundings, options), async ({ database, actor, now }) => {
    const account = await findAccountBy(database, who);
    const { name, organization } = options;
    const changed = orRefuse(
      await updateAccount(database, { name, organization, uuid: account.uuid, actor, now }),
    );
    const shown = { id: account.id, email: account.email, ...changed };
    if (options.json) printJson(surroundings, shown);
    else printFields(surroundings, shown);
  });
}
