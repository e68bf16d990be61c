/** The command that the console shows for a new model, run as it is shown. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { addCommand, EXAMPLE_FILE } from "../../src/admin/models/add_command.ts";
import { findRegistered } from "../../src/models/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { BRAND } from "../support/issue.ts";
import { useForAll, useTestDatabase } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { commandsOn } from "./commands_on.ts";

const server = useTestDatabase();
const commands = useForAll(() =>
  commandsOn(server, createTestClock(), {
    CLAVIGER_PUBLIC_URL: "https://licenses.example.org",
  }),
);
const folder = useFolder();
writeFileSync(join(folder, "model.bin"), "weights");

/** Splits the command as a shell does, in the folder of the file. */
function argumentsOf(command: string): string[] {
  const shell = Bun.spawnSync(["bash", "-c", command.replace(/^claviger /, "printf '%s\\0' ")]);
  const given = shell.stdout.toString().split("\0").slice(0, -1);
  return given.map((text) => (text === EXAMPLE_FILE ? join(folder, "model.bin") : text));
}

test("The command for a new model adds the model", async () => {
  const added = await commands.run(argumentsOf(addCommand(BRAND)));
  expect(added).toMatchObject({ status: 0, err: "" });
  const found = await findRegistered(server.database, "motor-imagery-4class");
  expect(found?.model).toMatchObject({ listedVersion: "1.0.0", owner: null, shown: { isHosted: true } });
});
