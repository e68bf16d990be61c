/** A data folder that has lost its database, or into which a restore was interrupted, is never taken for a new one. */
import { afterEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { Log } from "../../src/base/log.ts";
import { silentLog } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { cleanUp, makeDataFolder, makeFolder, open, query, start } from "./embedded_test_kit.ts";

afterEach(cleanUp);

const RESTORE =
  'restore a backup with `claviger restore FILE`: see "Replace lost data" in `claviger guide backups`';

function write(folder: string, path: string, text = ""): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

const COMMAND = { holder: "command", create: false } as const;

/** Opens the folder as a service, as `migrate` and as another command; all three must be refused alike. */
async function refusalIn(folder: string): Promise<string> {
  const names = () =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => name !== "lock")
      .sort();
  const before = names();
  const refusals = [
    await open(folder, COMMAND),
    await open(folder),
    await open(folder, { holder: "command" }),
    await open(folder, COMMAND),
  ];
  const said = refusals.map((each) => (isRefusal(each) ? `${each.code}: ${each.sentence}` : "opened"));
  expect(new Set(said).size).toBe(1);
  // A refusal changes nothing, except that a service locks the folder before it looks.
  expect(names()).toEqual(before);
  return said[0] ?? "";
}

describe("openEmbedded() in a folder without a cluster", () => {
  const lost = (folder: string, has: string, remedy = RESTORE) =>
    `DATA_LOST: Cannot open the data folder ${folder}: its database is lost: it has ${has} of an installation, and no ` +
    `postgres; ${remedy}`;
  const EXTERNAL = `if the database is your own PostgreSQL, DATABASE_URL is missing in the settings; otherwise ${RESTORE}`;

  test.each([
    [["installation"], "installation", RESTORE],
    [["installation", "secret", "models/ab/cdef"], "installation, secret and models", RESTORE],
    [["secret", "models/ab/cdef"], "secret and models", RESTORE],
    [["models/ab/cdef"], "models", EXTERNAL],
    [["models/.hosts/one", "serving"], "serving and models", EXTERNAL],
    [["serving"], "serving", EXTERNAL],
    [["installation", "postgres.unfinished-a1B2c3/PG_VERSION"], "installation", RESTORE],
  ])("refuses %j: its database is lost", async (paths, has, remedy) => {
    const folder = makeFolder();
    for (const path of paths) write(folder, path);
    expect(await refusalIn(folder)).toBe(lost(folder, has, remedy));
  });

  test("refuses a secret alone, and names both things that an operator may mean", async () => {
    const folder = makeFolder();
    write(folder, "secret");
    expect(await refusalIn(folder)).toBe(
      `DATA_LOST: Cannot open the data folder ${folder}: it has a secret and no database; ${RESTORE}; for a new ` +
        "installation with this secret move the file out of the folder, and name it in CLAVIGER_SECRET_FILE",
    );
  });

  test("starts in a folder that has only what an interrupted first start leaves", async () => {
    const folder = makeFolder();
    write(folder, "lock", "serve 1 starting\n");
    write(folder, "postgres.unfinished-a1B2c3/PG_VERSION", "18\n");
    write(folder, "postgres-17.2-00000000.unfinished-a1B2c3/bin/postgres");
    mkdirSync(join(folder, "models/.unfinished"), { recursive: true });
    await start(folder);
    expect(readdirSync(folder).sort()).toEqual(["installation", "lock", "models", "postgres"]);
  });

  test("restores into a folder that has lost its database", async () => {
    const folder = makeFolder();
    write(folder, "installation");
    write(folder, "models/ab/cdef");
    const server = await start(folder, { holder: "command", restores: true });
    expect(existsSync(join(folder, "restoring"))).toBe(true);
    await server.restoreNote.remove();
    expect(readdirSync(folder).sort()).toEqual(["installation", "lock", "models", "postgres"]);
  });
});

describe("openEmbedded() in a folder whose cluster has no valid PG_VERSION", () => {
  const breakings: [what: string, breakIt: (cluster: string) => void][] = [
    ["was removed", (cluster) => rmSync(join(cluster, "PG_VERSION"))],
    ["is empty", (cluster) => writeFileSync(join(cluster, "PG_VERSION"), "")],
    ["has other bytes", (cluster) => writeFileSync(join(cluster, "PG_VERSION"), Buffer.alloc(4096, 0xa5))],
    ["is in a folder that was emptied", empty],
    [
      "is behind a link to a disk that is not there",
      (cluster) => {
        rmSync(cluster, { recursive: true });
        symlinkSync("/nowhere/postgres", cluster);
      },
    ],
  ];
  test.each(breakings)("refuses a cluster whose PG_VERSION %s, and changes nothing", async (_, breakIt) => {
    const folder = makeDataFolder();
    breakIt(join(folder, "postgres"));
    const why = `its data is damaged: ${folder}/postgres has no valid PG_VERSION`;
    const sentence = `Cannot open the data folder ${folder}: ${why}; move the whole folder away, and ${RESTORE}`;
    expect(await refusalIn(folder)).toBe(`DATA_LOST: ${sentence}`);
    // A restore would have to delete what an operator may still want to look at.
    expect(await open(folder, { holder: "command", restores: true })).toMatchObject({
      code: "DATA_LOST",
      sentence,
    });
  });

  function empty(cluster: string): void {
    for (const name of readdirSync(cluster)) rmSync(join(cluster, name), { recursive: true });
  }
});

describe("openEmbedded() after an interrupted restore", () => {
  const RESTORES = { holder: "command", restores: true } as const;
  const unfinished = (folder: string) =>
    `DATA_LOST: Cannot open the data folder ${folder}: a restore into it has begun and has not ended; run ` +
    '`claviger restore FILE` again, which begins anew: see "Replace lost data" in `claviger guide backups`';

  test("refuses the folder, until a restore has removed what is there and has ended", async () => {
    const folder = makeFolder();
    const first = await start(folder, RESTORES);
    await query(first.address, "create table half as select 1 as one");
    await first.stop(3000);
    expect(await refusalIn(folder)).toBe(unfinished(folder));

    const warnings: unknown[] = [];
    const log: Log = { ...silentLog, warn: (text) => warnings.push(text) };
    const second = await start(folder, { ...RESTORES, log });
    expect(warnings).toEqual(["An earlier restore into this folder has not ended: what it left is removed"]);
    const [row] = await query(second.address, "select to_regclass('half') as half");
    expect(row).toEqual({ half: null });
    await query(second.address, "create table whole as select 1 as one");
    await second.restoreNote.remove();
    await second.stop(3000);
    expect(readdirSync(folder).sort()).toEqual(["installation", "lock", "postgres"]);
    expect(await query((await start(folder)).address, "select one from whole")).toEqual([{ one: 1 }]);
  });

  test("refuses the folder if the restore ended before its cluster was made", async () => {
    const folder = makeFolder();
    write(folder, "restoring");
    expect(await refusalIn(folder)).toBe(unfinished(folder));
  });

  test("leaves the note before PostgreSQL is unpacked, and takes it back if the restore is refused", async () => {
    const folder = makeFolder();
    const seen: boolean[] = [];
    const platform = {
      ...bunPlatform,
      postgresArchive: () => {
        seen.push(existsSync(join(folder, "restoring")));
        // Absent at the second look, which comes before the archive is unpacked: the restore is refused.
        return seen.length > 1 ? Promise.resolve(undefined) : bunPlatform.postgresArchive();
      },
    };
    expect(isRefusal(await open(folder, { ...RESTORES, platform }))).toBe(true);
    expect(seen).toEqual([false, true]);
    expect(readdirSync(folder)).toEqual(["lock"]);
    write(folder, "restoring");
    expect(isRefusal(await open(folder, { ...RESTORES, platform }))).toBe(true);
    expect(existsSync(join(folder, "restoring"))).toBe(true);
  });

  test("uses an empty database that was there before, if the restore into it has changed nothing", async () => {
    const folder = makeDataFolder();
    const restore = await start(folder, RESTORES);
    await restore.restoreNote.leave();
    expect(readFileSync(join(folder, "restoring"), "utf8")).toContain("has not ended");
    await restore.restoreNote.takeBack();
    await restore.stop(3000);
    expect(isRefusal(await open(folder))).toBe(false);
  });

  test("keeps refusing a cluster that was made for the restore, though the restore has changed nothing", async () => {
    const folder = makeFolder();
    const restore = await start(folder, RESTORES);
    await restore.restoreNote.takeBack();
    await restore.stop(3000);
    expect(await refusalIn(folder)).toBe(unfinished(folder));
  });
});

test("openEmbedded() notes the installation in a folder of an earlier version, also for a command", async () => {
  const folder = makeDataFolder();
  expect(existsSync(join(folder, "installation"))).toBe(false);
  await (await start(folder, COMMAND)).stop(3000);
  expect(readFileSync(join(folder, "installation"), "utf8")).toContain("claviger guide backups");
  rmSync(join(folder, "postgres"), { recursive: true });
  expect(await open(folder)).toMatchObject({ code: "DATA_LOST" });
});
