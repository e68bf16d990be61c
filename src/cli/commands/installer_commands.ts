/** `claviger installer …`: set and clear the repository token. */
import { END, toTimestamp } from "../../base/calendar.ts";
import {
  clearInstallerToken,
  parseInstallerToken,
  setInstallerToken,
} from "../../models/repository_token/mod.ts";
import { command, databaseCommand, group } from "../command.ts";
import { JSON_OPTIONS } from "../options.ts";
import { option } from "../parameter.ts";
import { CommandRefused, openProvenSecrets, orRefuse, readSettings, withDatabase } from "../run.ts";

const INPUT_LIMIT_BYTES = 8 * 1024;

const setToken = command({
  name: "set-token",
  description: "read the repository token from standard input, and store it sealed",
  options: {
    ...JSON_OPTIONS,
    expiresAt: option(
      "when the token expires: its last day, or a time in ISO 8601; by default it does not expire",
      END,
      {
        as: "time",
      },
    ),
  },
  async run({ expiresAt = null, ...place }, { invocation, print }) {
    const config = readSettings(invocation, place);
    const input = await invocation.readInput(INPUT_LIMIT_BYTES);
    if (input === undefined) throw new CommandRefused("Cannot set token: standard input is too long");
    const token = orRefuse(parseInstallerToken(input));
    await withDatabase(invocation, { config }, async ({ database, actor, now }) => {
      const secrets = await openProvenSecrets({ config, database, now });
      orRefuse(await setInstallerToken(database, { token, expiresAt }, { secrets, actor, now }));
      const expires_at = expiresAt && toTimestamp(expiresAt);
      print.line("The repository token is set", { set: true, expires_at });
      if (config.gitHubApp !== undefined)
        print.warn(
          "The token is not used: the settings name a GitHub App, and installers get that App's tokens",
        );
    });
  },
});

const clearToken = databaseCommand({
  name: "clear-token",
  description: "remove the token; installers then get the answer that no token is configured",
  async run(_values, { database, actor, now, print }) {
    orRefuse(await clearInstallerToken(database, { actor, now }));
    print.line("The repository token is cleared", { cleared: true });
  },
});

export const installer = group("installer", "set or clear the repository token that installers get", [
  setToken,
  clearToken,
]);
