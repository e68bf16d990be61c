/** What each command says in a data folder that has lost its database, or into which a restore was interrupted. */
import { beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { until } from "../support/until.ts";
import { type CommandLine, createCommandLine, readFindings } from "./command_line.ts";
import { useCommandLine } from "./use_command_line.ts";

const line = useCommandLine({ prepared: true });
const backup = join(line.folder, "saved.tar.zst");
const SECRET = "c5f2a0e9b18d47630a9be4d2f7c81653e0b7a4d9125fc83e6071d2ab94ce5f38";
/** Each opens the installation in another way. */
const COMMANDS = [
  ["serve", "--port", "0"],
  ["serve", "--port", "0", "--demo"],
  ["migrate"],
  ["migrate", "--status"],
  ["keys", "list"],
  ["audit", "--follow"],
  ["backup", "again.tar.zst"],
  ["demo", "remove"],
];

beforeAll(async () => {
  await using _service = await line.serve();
  await line.json(["keys", "issue", "--email", "ada@example.org", "--tier", "free"]);
  await line.json(["backup", backup, "--with-secret"]);
});

/** Expects that every command refuses the folder with the sentence, that `doctor` says it once, and that `restore` works. */
async function expectRefused(lost: CommandLine, sentence: string): Promise<void> {
  for (const args of COMMANDS) {
    expect({ args, ...(await lost.here(args)) }).toEqual({
      args,
      status: 78,
      out: "",
      err: `claviger: ${sentence}\n`,
    });
  }
  const doctor = await lost.here(["doctor", "--json"], { env: { CLAVIGER_PORT: "1" } });
  const { findings, of } = readFindings(doctor);
  expect(of("database")).toMatchObject({ state: "fail", message: sentence });
  expect(findings.map(({ name }) => name)).toEqual(expect.arrayContaining(["data folder", "disk", "clock"]));
  expect(doctor.out.split("Cannot open the data folder")).toHaveLength(2);
  expect(doctor.status).toBe(78);
  expect((await lost.here(["config", "check"])).status).toBe(0);

  expect(await lost.here(["restore", backup])).toMatchObject({ status: 0 });
  await using service = await lost.serve();
  expect((await fetch(`${service.url}/api/health`)).status).toBe(200);
  expect(await lost.json(["keys", "list"])).toHaveLength(1);
}

describe("A data folder that has lost its database", () => {
  test("is refused by every command, and filled by restore, after postgres was removed", async () => {
    using lost = createCommandLine({ prepared: true });
    await (await lost.serve()).stop();
    // As after a kill.
    writeFileSync(join(lost.dataDir, "serving"), "{}");
    for (const name of ["postgres", "secret"]) rmSync(join(lost.dataDir, name), { recursive: true });
    await expectRefused(
      lost,
      `Cannot open the data folder ${lost.dataDir}: its database is lost: it has installation and serving of an ` +
        "installation, and no postgres; restore a backup with `claviger restore FILE`: " +
        'see "Replace lost data" in `claviger guide backups`',
    );
  }, 120_000);

  test("is refused with its models and a setting that is missing", async () => {
    using external = createCommandLine();
    mkdirSync(join(external.dataDir, "models/ab"), { recursive: true, mode: 0o711 });
    writeFileSync(join(external.dataDir, "models/ab/cdef"), "");
    await expectRefused(
      external,
      `Cannot open the data folder ${external.dataDir}: its database is lost: it has models of an installation, and ` +
        "no postgres; if the database is your own PostgreSQL, DATABASE_URL is missing in the settings; otherwise " +
        'restore a backup with `claviger restore FILE`: see "Replace lost data" in `claviger guide backups`',
    );
  }, 120_000);

  test("is not one whose files were opened to a group, as a kubelet does: they are closed", async () => {
    using line = createCommandLine({ prepared: true });
    await (await line.serve()).stop();
    // Root has another rule for the data folder itself: the database in it belongs to another user.
    for (const name of [...(process.getuid?.() === 0 ? [] : [""]), "postgres", "secret"])
      chmodSync(join(line.dataDir, name), name === "secret" ? 0o660 : 0o2770);
    const { err, status } = await (await line.serve()).stop();
    expect({ status, err }).toMatchObject({
      status: 0,
      err: expect.stringContaining("The secret was closed"),
    });
    expect(err).toContain("The folder of the database was closed");
    const modes = ["postgres", "secret"].map((name) => statSync(join(line.dataDir, name)).mode & 0o777);
    expect(modes).toEqual([0o700, 0o600]);
  }, 60_000);

  test("is new with a secret that a setting names", async () => {
    using fresh = createCommandLine({ prepared: true });
    const env = { CLAVIGER_SECRET: SECRET };
    await using service = await fresh.serve([], { env });
    expect((await fetch(`${service.url}/api/health`)).status).toBe(200);
  }, 60_000);
});

describe("A data folder into which a restore was interrupted", () => {
  test("is refused by every command, and filled by the next restore, whatever the first one left", async () => {
    using lost = createCommandLine({ prepared: true });
    // As a restore that was killed between its commit and its end.
    await lost.json(["restore", backup]);
    writeFileSync(join(lost.dataDir, "restoring"), "");
    const secret = readFileSync(join(lost.dataDir, "secret"), "utf8");
    await expectRefused(
      lost,
      `Cannot open the data folder ${lost.dataDir}: a restore into it has begun and has not ended; run ` +
        '`claviger restore FILE` again, which begins anew: see "Replace lost data" in `claviger guide backups`',
    );
    expect(readFileSync(join(lost.dataDir, "secret"), "utf8")).toBe(secret);
  }, 120_000);

  test("has the note of the restore while its backup is verified, and none after a refusal", async () => {
    using lost = createCommandLine();
    mkdirSync(lost.dataDir, { mode: 0o711 });
    const noted: (string | null)[] = [];
    const watcher = watch(lost.dataDir, (_event, name) => noted.push(name));
    const ended = await lost.here(["restore", "-"], { input: "no backup" });
    expect(ended).toMatchObject({ status: 1, err: expect.stringContaining("Cannot use the backup") });
    await until(() => noted.includes("restoring"));
    watcher.close();
    expect(readdirSync(lost.dataDir)).toEqual([]);
  });

  test("is as before after a restore that failed before its commit into an empty database", async () => {
    using empty = createCommandLine({ prepared: true });
    const ended = await empty.here(["restore", backup], { signal: afterLoading(empty) });
    expect(ended).toMatchObject({ status: 1, err: expect.stringContaining("Stopped by SIGTERM") });
    expect(await empty.json(["keys", "list"])).toEqual([]);
  }, 60_000);

  test("is refused after a restore that failed before its commit, if it had made the database", async () => {
    using fresh = createCommandLine();
    const ended = await fresh.here(["restore", backup], { signal: afterLoading(fresh) });
    expect(ended).toMatchObject({ status: 1, err: expect.stringContaining("Stopped by SIGTERM") });
    expect(await fresh.here(["keys", "list"])).toMatchObject({
      status: 78,
      err: expect.stringContaining("a restore into it has begun and has not ended"),
    });
  }, 60_000);

  /** A signal that comes when the restore has left its note. It is seen between two steps of the load. */
  async function afterLoading({ dataDir }: CommandLine): Promise<string> {
    while (!(await Bun.file(join(dataDir, "restoring")).exists())) await Bun.sleep(1);
    // Not while PostgreSQL starts: the restore would end before it has changed anything.
    while (!(await Bun.file(join(dataDir, "postgres/postmaster.pid")).exists())) await Bun.sleep(1);
    return "SIGTERM";
  }
});
