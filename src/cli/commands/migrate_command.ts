/** `claviger migrate`. */
import { toTimestamp } from "../../base/calendar.ts";
import { migrate, migrationStatus, migrations } from "../../database/mod.ts";
import { command } from "../command.ts";
import { JSON_OPTIONS } from "../options.ts";
import { flag } from "../parameter.ts";
import { CommandRefused, orRefuse, readSettings, withInstallation } from "../run.ts";

export const migration = command({
  name: "migrate",
  description: "bring a new or existing database to this version's schema",
  options: { ...JSON_OPTIONS, status: flag("only show which migrations are applied and which are not") },
  async run({ status: isShownOnly, ...place }, { invocation, print }) {
    const config = readSettings(invocation, place);
    const create = !isShownOnly;
    await withInstallation(invocation, { config, create }, async ({ address }) => {
      if (create) orRefuse(await migrate(address, migrations));
      const status = await migrationStatus(address, migrations);
      if (status.refusal !== undefined) throw new CommandRefused(status.refusal.sentence);
      print.table([
        ...status.applied.map(({ number, name, appliedAt }) => ({
          number,
          name,
          applied_at: toTimestamp(appliedAt),
        })),
        ...status.pending.map(({ number, name }) => ({ number, name, applied_at: null })),
      ]);
    });
  },
});
