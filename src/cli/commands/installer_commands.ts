/** `claviger installer …`: set and clear the repository token. */

import type { Command } from "commander";
import { toTimestamp } from "../../calendar.ts";
import { clearInstallerToken, parseInstallerToken, setInstallerToken } from "../../repository_token/mod.ts";
import type { Invocation } from "../invocation.ts";
import { type JsonOptions, timestampOption, withJsonOptions } from "../options.ts";
import { printJson } from "../print.ts";
import { CommandRefused, openProvenSecrets, orRefuse, readSettings, withDatabase } from "../run.ts";

const INPUT_LIMIT_BYTES = 8 * 1024;

export function addInstallerCommands(program: Command, invocation: Invocation): void {
  const installer = program
    .command("installer")
    .description("set or clear the repository token that installers get");

  withJsonOptions(installer.command("set-token"))
    .description("read the repository token from standard input, and store it sealed")
    .option(
      "--expires-at <time>",
      "when the token expires, ISO 8601; by default it does not expire",
      timestampOption,
    )
    .action((options: SetTokenOptions) => setToken(invocation, options));

  withJsonOptions(installer.command("clear-token"))
    .description("remove the token; installers then get the answer that no token is configured")
    .action((options: JsonOptions) =>
      withDatabase(invocation, options, async ({ database, actor, now }) => {
        orRefuse(await clearInstallerToken(database, { actor, now }));
        if (options.json) printJson(invocation, { cleared: true });
        else invocation.out("The repository token is cleared\n");
      }),
    );
}

interface SetTokenOptions extends JsonOptions {
  readonly expiresAt?: Date;
}

async function setToken(invocation: Invocation, options: SetTokenOptions): Promise<void> {
  const config = readSettings(invocation, options);
  const input = await invocation.readInput(INPUT_LIMIT_BYTES);
  if (input === undefined) throw new CommandRefused("Cannot set token: standard input is too long");
  const token = orRefuse(parseInstallerToken(input));
  await withDatabase(invocation, { config }, async ({ database, actor, now }) => {
    const secrets = await openProvenSecrets({ config, database, now });
    const expiresAt = options.expiresAt ?? null;
    orRefuse(await setInstallerToken(database, { token, expiresAt }, { secrets, actor, now }));
    if (options.json) printJson(invocation, { set: true, expires_at: expiresAt && toTimestamp(expiresAt) });
    else invocation.out("The repository token is set\n");
    if (config.gitHubApp !== undefined) {
      invocation.err(
        "The token is not used: the settings name a GitHub App, and installers get that App's tokens\n",
      );
    }
  });
}
