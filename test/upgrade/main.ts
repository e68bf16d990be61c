/**
 * Proves that an installation of every released version works with this program: `make prove-upgrade`. Each version is
 * built from the history and filled; then this executable takes its place, and another installation of this version
 * restores a backup that the old one made. Both must show what the old one showed, with
 * every index intact. Prints each difference, and ends with 1 if there is one.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { builtPostgres } from "../../src/base/platform/bun/pack_postgres.ts";
import { BUILT_POSTGRES } from "../../src/base/version.ts";
import { builtExecutable } from "../compiled/executable.ts";
import { examineCluster } from "../support/examine_cluster.ts";
import { copyAmcheck } from "../support/postgres_programs.ts";
import { fill } from "./fill.ts";
import { createInstallation, type Installation } from "./installation.ts";
import { compareRecords, type Record, recordAnswers, recordLists } from "./record.ts";
import { buildVersion, VERSIONS, type Version } from "./versions.ts";

let failed = 0;
function report(what: string, before: Record, after: Record): void {
  const found = compareRecords(before, after);
  failed += found.length;
  console.log(`${found.length === 0 ? "same   " : "DIFFERS"}  ${what}: ${before.size} records`);
  for (const line of found) console.log(`         ${line.slice(0, 400)}`);
}

/** Checks every table and index of the running cluster, and that the program that opened it is the one inside. */
async function reportCluster(what: string, { state }: Installation): Promise<void> {
  const programs = readdirSync(state).find((name) => name.startsWith(`postgres-${BUILT_POSTGRES}-`));
  if (programs === undefined) throw new Error(`${state} has no PostgreSQL ${BUILT_POSTGRES}`);
  copyAmcheck(join(builtPostgres(), "tools"), join(state, programs));
  const { version, indexes, tables, faults, foreignOrder } = await examineCluster(state);
  const found = [...faults, ...foreignOrder];
  if (version !== BUILT_POSTGRES) found.push(`PostgreSQL ${version} runs, not ${BUILT_POSTGRES}`);
  failed += found.length;
  const word = found.length === 0 ? "intact " : "DAMAGED";
  console.log(`${word}  ${what}: ${tables} tables, ${indexes} indexes`);
  for (const line of found) console.log(`         ${line.slice(0, 400)}`);
}

async function prove(version: Version): Promise<void> {
  const installation = await createInstallation(buildVersion(version));
  const restored = await createInstallation(builtExecutable);
  const backup = `${installation.folder}/tmp/before.tar.zst`;
  try {
    const filled = await fill(installation);
    console.log(`${version.version}  has all but: ${filled.lacking.join(", ") || "nothing"}`);
    // Otherwise nothing would be compared where the version's help was misread, or its files were not served.
    if (!Bun.deepEquals(filled.lacking, version.lacks))
      throw new Error(`It lacks ${version.lacks.join(", ")}`);
    const answers = await recordAnswers(installation, filled);
    if (![...answers.keys()].some((name) => name.includes(" file of "))) throw new Error("It served no file");
    // The service writes last uses behind, and all of them when it stops.
    await installation.stop();
    await installation.start();
    const lists = await recordLists(installation, filled);
    await installation.json(["backup", backup, "--with-secret", "--with-models"]);
    await installation.stop();

    installation.replaceBy(builtExecutable);
    await installation.start();
    report(`${version.version}, replaced: lists`, lists, await recordLists(installation, filled));
    report(`${version.version}, replaced: answers`, answers, await recordAnswers(installation, filled));
    await reportCluster(`${version.version}, replaced: PostgreSQL`, installation);
    await installation.stop();

    // The settings are those of its own file.
    lists.delete("settings");
    await restored.json(["restore", backup]);
    await restored.start();
    for (const name of filled.tokens.length > 0 ? ["reader", "shop"] : [])
      await restored.json(["tokens", "resume", name]);
    report(`${version.version}, restored: lists`, lists, await recordLists(restored, filled));
    report(`${version.version}, restored: answers`, answers, await recordAnswers(restored, filled));
    await reportCluster(`${version.version}, restored: PostgreSQL`, restored);
  } finally {
    await installation.remove();
    await restored.remove();
  }
}

const only = process.argv.slice(2);
const chosen = VERSIONS.filter(({ version }) => only.length === 0 || only.includes(version));
if (chosen.length === 0) throw new Error(`No version is named ${only.join(" or ")}`);
for (const version of chosen) await prove(version);
process.exit(failed === 0 ? 0 : 1);
