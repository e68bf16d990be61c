/** `claviger accounts …`: list and update. */
import type { Command } from "commander";
import { toTimestamp } from "../calendar.ts";
import { parseId } from "../ids.ts";
import { findAccount, listAccounts, parseEmail, updateAccount } from "../licensing/mod.ts";
import { type PlaceOptions, textOption, withJson, withPlace } from "./options.ts";
import { printFields, printJson, printTable } from "./print.ts";
import { CommandRefused, orRefuse, withInstallation } from "./run.ts";
import type { Surroundings } from "./surroundings.ts";

type Json = PlaceOptions & { readonly json: boolean };

export function addAccountsCommands(program: Command, surroundings: Surroundings): void {
  const accounts = program.command("accounts").description("look at and change accounts");

  withPlace(withJson(accounts.command("list")))
    .description("list all accounts")
    .action((options: Json) =>
      withInstallation(surroundings, options, async ({ database }) => {
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

  withPlace(withJson(accounts.command("update")))
    .description("change an account's name or organization")
    .argument("<account>", "the account's id or e-mail")
    .option("--name <name>", "the new name", textOption(200))
    .option("--organization <organization>", "the new organization", textOption(200))
    .action((who: string, options: Json & { readonly name?: string; readonly organization?: string }) =>
      withInstallation(surroundings, options, async ({ database, actor, now }) => {
        if (options.name === undefined && options.organization === undefined) {
          throw new CommandRefused("Cannot update account: give --name or --organization");
        }
        if (options.name === "")
          throw new CommandRefused("Cannot update account: the name must not be empty");
        const uuid = parseId("usr", who);
        const email = parseEmail(who);
        const account =
          uuid !== undefined
            ? await findAccount(database, { uuid })
            : email && (await findAccount(database, { email }));
        if (!account) throw new CommandRefused("Cannot update account: no account has that id or e-mail");
        const changed = orRefuse(
          await updateAccount(database, { ...options, uuid: account.uuid, actor, now }),
        );
        const shown = { id: account.id, email: account.email, ...changed };
        if (options.json) printJson(surroundings, shown);
        else printFields(surroundings, shown);
      }),
    );
}
