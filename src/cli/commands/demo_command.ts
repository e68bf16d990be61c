/** `claviger demo remove`: removes what `serve --demo` has added. */
import { counted } from "../../base/render_count.ts";
import { databaseCommand, group } from "../command.ts";
import { removeDemoOperator } from "../demo/console.ts";
import { hasDemo, removeDemo } from "../demo/remove_demo.ts";
import { CommandRefused, openProvenSecrets } from "../run.ts";

const KEPT =
  "The sessions of the operator demo are ended. The operator stays, because it is the last admin: create another " +
  "admin with `claviger operators login NAME --role admin`, then run `claviger operators remove demo`";

const remove = databaseCommand({
  name: "remove",
  description:
    "revoke the demo's keys, remove their use, erase its accounts, retire its models, and remove its token and operator",
  async run(_values, { config, database, actor, now, print }) {
    if (!(await hasDemo(database)))
      throw new CommandRefused("Cannot remove the demo: this database has no demo");
    const secrets = await openProvenSecrets({ config, database, now });
    const by = { ...actor, reason: "demo" };
    const operator = await removeDemoOperator(database, { actor: by, now });
    const removed = await removeDemo(database, { secrets, actor: by, now });
    const { keys, models, token } = removed;
    print.line(`Revoked ${counted(keys, "key")} of the demo, removed their use, and erased their accounts`, {
      ...removed,
      operator: operator ?? null,
    });
    for (const model of models) print.line(`Retired ${model}`);
    if (token) print.line("The repository token is cleared");
    if (operator === "removed") print.line("The operator demo is removed");
    if (operator === "kept") print.line(KEPT);
  },
});

export const demo = group("demo", "remove what `serve --demo` has added", [remove]);
