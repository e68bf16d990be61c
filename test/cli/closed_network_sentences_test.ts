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
import type { UsageReport } from "../../src/usage/reports/parse_report.ts";
import { refuseOutOfTurn } from "../../src/usage/reports/standing.ts";
import { useFolder } from "../support/use_folder.ts";
import { MODULES } from "./sdk_languages.ts";

const folder = useFolder();
const PAGE = readFileSync(join(MODULES, "../troubleshooting.md"), "utf8");
const [, section = ""] = /^## Closed networks\n(.*?)^## /ms.exec(PAGE) ?? [];
const [, ofModules = "", ofService = ""] = section.split("| What you see ");

/** The messages in the first column of a table. */
function messagesOf(table: string): string[] {
  const cells = [...table.matchAll(/^\| (`.*?`) \| /gm)].map(([, cell = ""]) => cell);
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, message = ""]) => message));
}

/** The parts of each message that stand in the code as they are: what is between them differs. */
function partsOf(table: string): string[] {
  return messagesOf(table)
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

test("the page names every reason why a report is not the next one of its machine", () => {
  const forms = messagesOf(ofService).map(
    (message) => new RegExp(message.replaceAll(/[^\w\s…]/g, "\\$&").replaceAll("…", ".+")),
  );
  const now = new Date("2026-11-30T12:00:00Z");
  const report: UsageReport = {
    ...{
      licenseUuid: "01a20387-8076-7b69-8ef7-99a812850001",
      machine: "5d".repeat(32),
      journal: "ab".repeat(16),
    },
    ...{ number: 5, previous: "00".repeat(32), digest: "11".repeat(32), madeAt: now, clients: [] },
    ...{ months: [], days: 0, events: [] },
  };
  const open = {
    ...{ uuid: report.licenseUuid, journal: report.journal, number: 4, digest: "22".repeat(32) },
    reportedAt: now,
  };
  const standing = { customer: { email: "ada@example.org", organization: "" }, machineUuid: null, open };
  const turn = { now, allowed: {}, hasReason: false };
  const refusals = [
    refuseOutOfTurn({ ...report, number: 6 }, standing, turn),
    refuseOutOfTurn({ ...report, number: 8 }, standing, turn),
    refuseOutOfTurn({ ...report, journal: "cd".repeat(16) }, standing, turn),
    refuseOutOfTurn({ ...report, number: 4 }, standing, turn),
    refuseOutOfTurn(report, standing, turn),
    refuseOutOfTurn({ ...report, madeAt: new Date("2026-12-03T12:00:00Z") }, standing, turn),
  ];
  const sentences = refusals.map((refusal) => refusal?.sentence ?? "");
  expect(new Set(sentences).size).toBe(refusals.length);
  expect(sentences.filter((sentence) => !forms.some((form) => form.test(sentence)))).toEqual([]);
});

test("the page for the carrier names every field of a use that a report may hold", () => {
  const page = readFileSync(join(MODULES, "../closed-networks.md"), "utf8");
  const [, said = ""] = /^## What each file contains\n(.*?)^## /ms.exec(page) ?? [];
  const fields = Object.keys(batchEventFields.entries);
  expect(fields.length).toBeGreaterThan(8);
  expect(fields.filter((name) => !said.includes(`\`${name}\``))).toEqual([]);
});
