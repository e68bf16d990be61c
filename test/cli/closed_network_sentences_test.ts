/**
 * The messages on the page `troubleshooting` for closed networks are those of the modules in both languages, and of the import;
 * and the page `closed-networks` names every field of a use that leaves a machine.
 */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "../../src/cli/guide/sdk/claviger_client.ts";
import vectors from "../../src/cli/guide/sdk/vectors.json" with { type: "json" };
import { batchEventFields } from "../../src/usage/mod.ts";
import { useFolder } from "../support/use_folder.ts";
import { MODULES } from "./sdk_languages.ts";

const folder = useFolder();
const PAGE = readFileSync(join(MODULES, "../troubleshooting.md"), "utf8");
const [, section = ""] = /^## Closed networks\n(.*?)^## /ms.exec(PAGE) ?? [];
const [, ofModules = "", ofService = ""] = section.split("| What you see ");

/** The parts of each message that stand in the code as they are: what is between them differs. */
function partsOf(table: string): string[] {
  const cells = [...table.matchAll(/^\| (`.*?`) \| /gm)].map(([, cell = ""]) => cell);
  const messages = cells.flatMap((cell) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, message = ""]) => message),
  );
  return messages
    .flatMap((message) => message.split("…"))
    .map((part) => part.replace(/^[:, ]+|[:, ]+$/g, ""))
    .filter((part) => part.length > 3);
}

/** A source in one line, with texts that go on in another line put together, and each kind of what is signed in its place. */
function read(...paths: readonly string[]): string {
  const text = paths.map((path) => readFileSync(path, "utf8")).join("\n");
  const whole = text.replace(/["`]\s*\n\s*f?["`]/g, "").replaceAll(/\$?\{kind\}/g, "KIND");
  return [whole.replaceAll("KIND", "license"), whole.replaceAll("KIND", "bundle")].join("\n");
}

for (const name of ["claviger_client.py", "claviger_client.ts"])
  test(`the page names the messages of ${name}`, () => {
    const missing = new Client({ stateFile: join(folder, "state"), fingerprint: "workstation-7" }).missing();
    const sentences = vectors.sentences.map(({ expect: sentence }) => sentence);
    const said = [read(join(MODULES, name)), missing, ...sentences].join("\n");
    const parts = partsOf(ofModules);
    expect(parts.length).toBeGreaterThan(15);
    expect(parts.filter((part) => !said.includes(part))).toEqual([]);
  });

test("the page names the messages of the import", () => {
  const room = join(MODULES, "../../../usage/reports");
  const said = read(...readdirSync(room).map((name) => join(room, name)));
  const parts = partsOf(ofService);
  expect(parts.length).toBeGreaterThan(5);
  expect(parts.filter((part) => !said.includes(part))).toEqual([]);
});

test("the page for the carrier names every field of a use that a report may hold", () => {
  const page = readFileSync(join(MODULES, "../closed-networks.md"), "utf8");
  const [, said = ""] = /^## What each file contains\n(.*?)^## /ms.exec(page) ?? [];
  const fields = Object.keys(batchEventFields.entries);
  expect(fields.length).toBeGreaterThan(8);
  expect(fields.filter((name) => !said.includes(`\`${name}\``))).toEqual([]);
});
