/** The commands that the console shows for models, run as they are shown. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { addCommand, addVersionCommand, FILE } from "../../src/admin/models/add_command.ts";
import { findRegistered, type RegisteredModel } from "../../src/models/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { BRAND, issue } from "../support/issue.ts";
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
  return given.map((text) => (text === FILE ? join(folder, "model.bin") : text));
}

async function modelNamed(name: string): Promise<RegisteredModel> {
  const found = await findRegistered(server.database, name);
  if (found === undefined) throw new Error(`There is no model ${name}`);
  return found.model;
}

test("The command for a new model adds the model, and the command for another version adds the version", async () => {
  const added = await commands.run(argumentsOf(addCommand(BRAND)));
  expect(added).toMatchObject({ status: 0, err: "" });
  const model = await modelNamed("motor-imagery-4class");
  expect(model).toMatchObject({ listedVersion: "1.0.0", owner: null, shown: { isHosted: true } });
  expect(await commands.run(argumentsOf(addVersionCommand(model)))).toMatchObject({ status: 0 });
  expect(await modelNamed(model.name)).toMatchObject({ listedVersion: "NEW-VERSION", versions: 2 });
});

test("The command for another version of a custom model keeps the owner", async () => {
  const { userId } = await issue(server.database, { email: "owner@example.org" });
  const command = addCommand(BRAND).replace("research", "commercial").replace("4class", "custom");
  const added = await commands.run([...argumentsOf(command), "--owner", userId]);
  expect(added).toMatchObject({ status: 0 });
  const model = await modelNamed("motor-imagery-custom");
  expect(await commands.run(argumentsOf(addVersionCommand(model)))).toMatchObject({ status: 0 });
  expect(await modelNamed(model.name)).toMatchObject({ versions: 2, owner: { id: userId } });
});

test("A value with special characters of the shell stays one argument", async () => {
  await commands.run(argumentsOf(addCommand(BRAND).replace("motor-imagery-4class", "odd")));
  const model = await modelNamed("odd");
  const odd = { ...model, shown: { ...model.shown, paradigm: 'it\'s $(id) `id` "x"\n' } };
  expect(argumentsOf(addVersionCommand(odd))).toContain(odd.shown.paradigm);
});
