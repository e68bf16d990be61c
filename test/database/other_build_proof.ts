/**
 * A cluster is the same for the PostgreSQL that is built from its source and for that of the npm package, which was inside
 * until 0.4.0: each opens what the other made, with every index intact, and restores what the other saved.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync } from "node:fs";
import { join } from "node:path";
import postgres from "postgres";
import { BUILT_POSTGRES } from "../../src/base/version.ts";
import { type CommandLine, createCommandLine } from "../cli/command_line.ts";
import { connectionTo, examineCluster } from "../support/examine_cluster.ts";
import { hasBoth, type OtherPostgres, unpackBuilt, unpackPackage } from "../support/postgres_programs.ts";

const BACKUP = join(import.meta.dir, "../installation/backup/fixtures/0.1.0.tar.zst");
/** Orders that differ between C, the languages of glibc and ICU. */
const NAMES = ["Zoë", "zoe", "ärger", "Ärger", "Arger", "I", "ı", "İ", "ß", "SS", "-a", "a b", "𝒳"];

describe.skipIf(!hasBoth)("a cluster of the package", () => {
  let [ours, theirs]: OtherPostgres[] = [];
  const lines: CommandLine[] = [];
  const createLine = () => {
    const line = createCommandLine();
    lines.push(line);
    return line;
  };
  const by = (programs?: OtherPostgres) => ({ env: { CLAVIGER_POSTGRES_BIN: programs?.bin ?? "" } });

  beforeAll(async () => {
    ours = await unpackBuilt();
    theirs = await unpackPackage();
  });
  afterAll(() => {
    for (const line of lines) line.remove();
    ours?.remove();
    theirs?.remove();
  });

  /** Serves the data folder with these programs, examines its cluster, and returns all accounts and keys. */
  async function look(line: CommandLine, programs?: OtherPostgres) {
    await using _ = await line.serve([], by(programs));
    const examined = await examineCluster(line.dataDir);
    const accounts = await line.json(["accounts", "list"], by(programs));
    const keys = await line.json(["keys", "list"], by(programs));
    return { examined, rows: { accounts, keys } };
  }

  test("is opened by our build, and by the package again, with every index intact and the same rows", async () => {
    const line = createLine();
    await line.json(["restore", BACKUP], by(theirs));
    for (const [i, name] of NAMES.entries()) {
      await line.json(
        ["keys", "issue", "--email", `${i}@example.org`, "--name", name, "--tier", "free"],
        by(theirs),
      );
    }
    const before = await look(line, theirs);
    const after = await look(line, ours);
    const back = await look(line, theirs);
    expect(before.rows.accounts.length).toBeGreaterThan(NAMES.length);
    expect(before.examined).toMatchObject({ version: "18.4", faults: [], foreignOrder: [] });
    expect(before.examined.indexes).toBeGreaterThan(150);
    expect(after).toEqual({ ...before, examined: { ...before.examined, version: BUILT_POSTGRES } });
    expect(back).toEqual(before);
  });

  test("has collations of ICU, and an index by one of them would be found", async () => {
    const line = createLine();
    await line.json(["restore", BACKUP], by(theirs));
    await using _ = await line.serve([], by(theirs));
    const sql = postgres({ ...connectionTo(line.dataDir), max: 1 });
    await sql`create index by_icu on accounts (email collate "en-x-icu")`;
    await sql.end();
    const { foreignOrder } = await examineCluster(line.dataDir);
    expect(foreignOrder).toEqual(["by_icu by en-x-icu"]);
  });

  test.each(["to our build", "from our build"])("is restored %s, with every index intact", async (way) => {
    const [from, to] = way.startsWith("to") ? [theirs, ours] : [ours, theirs];
    const [source, target] = [createLine(), createLine()];
    await source.json(["restore", BACKUP], by(from));
    const backup = join(source.folder, "backup.tar.zst");
    await source.json(["backup", backup, "--with-secret"], by(from));
    cpSync(backup, join(target.folder, "backup.tar.zst"));
    const before = await look(source, from);
    await target.json(["restore", join(target.folder, "backup.tar.zst")], by(to));
    const after = await look(target, to);
    expect(after.rows).toEqual(before.rows);
    expect(after.examined).toMatchObject({ faults: [], foreignOrder: [] });
  });
});
