/**
 * An ordinary user plants a trap in a data folder, and root runs a command there. The command must not change or show
 * any file of root's, and must not wait. `root_traps_proof.ts` has the traps that appear while the command runs.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { findPostgres } from "../database/embedded_test_kit.ts";
import { canActAsBoth, createRootStage, type RootStage, USER } from "./as_root.ts";
import { COPY_LIMIT_MS, commands, createTrapStage, env, LIMIT_MS, type TrapStage } from "./trap_stage.ts";

setDefaultTimeout(COPY_LIMIT_MS);

/** A user who is neither root nor the owner of the data folder. */
const THIRD = 54_321;

describe.skipIf(!canActAsBoth)("root in the data folder of a user who plants traps", () => {
  let stage: TrapStage;
  beforeAll(async () => {
    stage = await createTrapStage();
  }, COPY_LIMIT_MS);
  afterAll(() => stage.remove());

  /**
   * The trap, the shell line that plants it, the command that meets it, and root's message; `$1` is the
   * victim.
   */
  const traps: readonly (readonly [string, string, keyof typeof commands, RegExp])[] = [
    ["lock: a link", "ln -sf $1/key lock", "list", /symbolic link/],
    ["lock: a link to nothing", "ln -sf $1/new lock", "list", /symbolic link/],
    ["lock: a pipe", "rm lock; mkfifo lock", "list", /is no regular file.*remove it/],
    ["lock: a folder", "rm lock; mkdir lock", "list", /remove it/],
    ["secret: a link", "ln -s $1/key secret", "backup", /Cannot read the secret .*this user may not/],
    ["secret: a pipe", "mkfifo secret", "backup", /Cannot read the secret .*it is no regular file/],
    ["serving: a link", "ln -s $1/key serving", "doctor", /^$/],
    ["serving: a pipe", "mkfifo serving", "doctor", /^$/],
    ["serving: a pipe, for root itself", "mkfifo serving", "check", /^$/],
    ["serving: a link, for root itself", "ln -s $1/key serving", "check", /^$/],
    ["models: a link", "ln -s $1 models", "add", /Cannot add model: the folder .*may not/],
    ["models: a pipe", "mkfifo models", "add", /Cannot add model/],
    ["postgres: a link", "mv postgres away; ln -s $1/below postgres", "list", /Cannot open the data folder/],
    ["postgres: a pipe", "mv postgres away; mkfifo postgres", "list", /Cannot open the data folder/],
    ["PG_VERSION: a link", "ln -sf $1/key postgres/PG_VERSION", "list", /symbolic link/],
    ["PG_VERSION: a pipe", "rm postgres/PG_VERSION; mkfifo postgres/PG_VERSION", "list", /remove it/],
    ["PG_VERSION: no version", "echo '\\033[2J' > postgres/PG_VERSION", "list", /holds no version/],
    ["postmaster.pid: a link", "ln -s $1/key postgres/postmaster.pid", "list", /^$/],
    ["postmaster.pid: a pipe", "mkfifo postgres/postmaster.pid", "list", /^$/],
  ];

  test.each(traps)("is safe from a trap at %s", async (_, plant, command, told) => {
    stage.mend();
    stage.asUser(plant);
    const ended = await stage.asRoot(commands[command], { env });
    if (!told.test("")) expect(ended.err).toMatch(told);
    if (!told.test("")) expect(ended.status).toBe(1);
    stage.expectHarmless(ended);
    expect(existsSync(join(stage.folder, "saved"))).toBe(false);
  });

  test("is safe from a link at secret.new, where a restore stores the secret", async () => {
    stage.mend();
    writeFileSync(join(stage.folder, "secret"), randomBytes(32).toString("hex"));
    const given = { CLAVIGER_SECRET_FILE: join(stage.folder, "secret") };
    const saved = await stage.asRoot(["backup", "with-secret", "--with-secret"], { env: given });
    expect(saved).toMatchObject({ status: 0 });
    expect(statSync(join(stage.folder, "with-secret"))).toMatchObject({ uid: 0, gid: 0, mode: 0o100600 });
    stage.asUser("rm -rf * && ln -s $1/key secret.new && ln -s $1/key serving.1");
    const restored = await stage.asRoot(["restore", "with-secret"]);
    expect(restored).toMatchObject({ status: 0, err: "" });
    stage.expectSameVictim();
    expect(statSync(join(stage.dataDir, "secret"))).toMatchObject({ ...USER, mode: 0o100600 });
    stage.expectOwnedByUser();
  });

  test("is safe from a link and a pipe at the paths of files to read", async () => {
    stage.mend();
    stage.asUser("ln -s $1/key ../file; mkfifo ../pipe");
    for (const name of ["file", "pipe"]) {
      const path = join(stage.home, name);
      for (const args of [
        ["keys", "import", path],
        ["restore", path],
      ]) {
        const ended = await stage.asRoot(args);
        expect(ended).toMatchObject({ status: 1, out: "" });
        expect(ended.err).toMatch(/may not|no regular file/);
        stage.expectHarmless(ended);
      }
    }
  });

  test("writes a backup into the user's folder with only the user's rights", async () => {
    stage.mend();
    stage.asUser("ln -s $1 ../elsewhere");
    const refused = await stage.asRoot(["backup", join(stage.home, "elsewhere/new")]);
    expect(refused).toMatchObject({ status: 1 });
    stage.expectHarmless(refused);
    const path = join(stage.home, "mine");
    expect(await stage.asRoot(["backup", path])).toMatchObject({ status: 0 });
    expect(statSync(path)).toMatchObject(USER);
  });

  test("refuses settings that the user can change", async () => {
    stage.mend();
    stage.asUser("echo CLAVIGER_SECRET_FILE=$1/key > ../own.env");
    const ended = await stage.asRoot(["keys", "list", "--env-file", join(stage.home, "own.env")]);
    expect(ended.err).toContain(`${stage.home}/own.env`);
    expect(ended.status).toBe(1);
    stage.expectHarmless(ended);
  });

  test("refuses settings that the user's group, or every user, may write", async () => {
    stage.mend();
    const path = join(stage.folder, "open.env");
    writeFileSync(path, "");
    for (const [gid, mode] of [
      [USER.gid, 0o660],
      [0, 0o646],
    ] as const) {
      chownSync(path, 0, gid);
      chmodSync(path, mode);
      const ended = await stage.asRoot(["keys", "list", "--env-file", path]);
      stage.expectHarmless(ended);
      expect(ended).toMatchObject({ status: 1, err: expect.stringContaining(`chmod go-w ${path}`) });
    }
  });

  test("refuses a link to root's secret at the path of the user's secret", async () => {
    stage.mend();
    const secret = randomBytes(32).toString("hex");
    const given = { env: { CLAVIGER_SECRET_FILE: join(stage.dataDir, "own") } };
    const save = () => stage.asRoot(["backup", "stolen", "--with-secret", "--force"], given);
    stage.asUser(`echo ${secret} > own`);
    expect(await save()).toMatchObject({ status: 0, err: "" });
    rmSync(join(stage.folder, "stolen"));
    writeFileSync(join(stage.folder, "roots"), secret, { mode: 0o600 });
    stage.asUser("ln -sf ../../roots own");
    const ended = await save();
    stage.expectHarmless(ended);
    expect(ended).toMatchObject({
      status: 1,
      err: expect.stringContaining("leads to another user's file"),
    });
    expect(existsSync(join(stage.folder, "stolen"))).toBe(false);
  });

  test("refuses root's file in the folder of a third user, who may help the owner", async () => {
    stage.mend();
    const third = join(stage.folder, "third");
    mkdirSync(third, { mode: 0o755 });
    chownSync(third, THIRD, THIRD);
    const line = { sha256: "0c".repeat(32), mode: "live", email: "x@example.org", tier: "free" };
    const keys = `${JSON.stringify({ ...line, expires_at: "never", monthly_limit: null, used: 0 })}\n`;
    const path = join(third, "keys.jsonl");
    writeFileSync(path, keys, { mode: 0o600 });
    // The file is root's, but another user can replace it in that folder.
    expect(await stage.asRoot(["keys", "import", path])).toMatchObject({
      status: 1,
      out: "",
      err: expect.stringContaining("may not"),
    });
    // A user who became root by sudo may name files in folders of that user.
    const sudo = { env: { SUDO_UID: String(THIRD), SUDO_USER: "third" } };
    expect(await stage.asRoot(["keys", "import", path], sudo)).toMatchObject({ status: 0 });
    // The file belongs to the third user.
    writeFileSync(path, keys.replaceAll("0c", "0d"));
    chownSync(path, THIRD, THIRD);
    expect(await stage.asRoot(["keys", "import", path])).toMatchObject({ status: 0 });
  });

  test("refuses a folder at the path of a file", async () => {
    stage.mend();
    for (const args of [
      ["keys", "import", stage.victim],
      ["restore", stage.victim],
    ])
      expect(await stage.asRoot(args)).toMatchObject({
        status: 1,
        err: expect.stringMatching(/is a folder/),
      });
  });

  test("ends an endless start of PostgreSQL at a signal", async () => {
    stage.mend();
    stage.asUser("rm postgres/postgresql.auto.conf; mkfifo postgres/postgresql.auto.conf");
    const terminateWhen = () => findPostgres(stage.dataDir) !== undefined;
    const ended = await stage.asRoot(["keys", "list"], { terminateWhen });
    expect(ended).toMatchObject({ status: 1, err: "claviger: Stopped by SIGTERM: nothing was changed\n" });
    expect(ended.ms).toBeLessThan(stage.usualMs + LIMIT_MS);
  });
});

describe.skipIf(!canActAsBoth)("root in a folder of its own, where the cluster's user plants traps", () => {
  let stage: RootStage;
  let dataDir: string;
  let usualMs: number;

  beforeAll(async () => {
    stage = createRootStage();
    dataDir = join(stage.folder, "own");
    const made = await stage.asRoot(["migrate"], { dataDir });
    if (made.status !== 0) throw new Error(made.err);
    usualMs = (await stage.asRoot(["keys", "list"], { dataDir })).ms;
  }, COPY_LIMIT_MS);
  afterAll(() => stage.remove());

  const traps: readonly (readonly [string, string, string, RegExp])[] = [
    [
      "PG_VERSION: a pipe",
      "mv PG_VERSION v; mkfifo PG_VERSION",
      "rm PG_VERSION; mv v PG_VERSION",
      /remove it/,
    ],
    [
      "PG_VERSION: a link",
      "mv PG_VERSION v; ln -s $1/key PG_VERSION",
      "rm PG_VERSION; mv v PG_VERSION",
      /symbolic link/,
    ],
    ["postmaster.pid: a pipe", "mkfifo postmaster.pid", "rm -f postmaster.pid", /^$/],
    ["postmaster.pid: a link", "ln -s $1/key postmaster.pid", "rm -f postmaster.pid", /^$/],
    ["its socket: a pipe", "mkfifo .s.PGSQL.5432", "rm -f .s.PGSQL.5432", /^$/],
  ];

  test.each(traps)("is safe from a trap at %s", async (_, plant, undo, told) => {
    const cluster = join(dataDir, "postgres");
    const { uid, gid } = statSync(cluster);
    expect(uid).not.toBe(0);
    const asPostgres = (line: string) =>
      execFileSync("sh", ["-c", line, "sh", stage.victim], {
        cwd: cluster,
        uid,
        gid,
        env: { PATH: "/usr/bin:/bin" },
      });
    const before = stage.lookAtVictim();
    asPostgres(plant);
    try {
      for (const command of [["keys", "list"], ["doctor"], ["serve", "--port", "0"]]) {
        const isServing = command[0] === "serve" && told.test("");
        const terminateWhen = (out: string) => out.includes(" serves at ");
        const options = { dataDir, ...(isServing && { terminateWhen }) };
        const ended = await stage.asRoot(command, options);
        expect(ended.ms - usualMs).toBeLessThan(LIMIT_MS);
        if (!told.test("")) expect(ended.out + ended.err).toMatch(told);
        if (!told.test("")) expect(ended.status).toBe(1);
        expect(stage.lookAtVictim()).toEqual(before);
      }
    } finally {
      asPostgres(undo);
    }
  });

  test("refuses a data folder below a folder that another user can change", async () => {
    const between = join(stage.folder, "between");
    mkdirSync(join(between, "data"), { recursive: true });
    const dir = { dataDir: join(between, "data") };
    chmodSync(between, 0o777);
    expect((await stage.asRoot(["migrate"], dir)).err).toBe(
      `claviger: Cannot use the data folder ${dir.dataDir} as root: other users can write to ${between}, so root could ` +
        `be made to write elsewhere; \`chmod go-w ${between}\`, or choose a folder that root alone can change, such as ` +
        "/var/lib/claviger\n",
    );
    chmodSync(between, 0o755);
    chownSync(between, USER.uid, USER.gid);
    for (const command of [["migrate"], ["serve"]]) {
      const ended = await stage.asRoot(command, dir);
      expect(ended).toMatchObject({
        status: 1,
        err: expect.stringContaining(`${between} belongs to user 65534`),
      });
    }
    expect(readdirSync(dir.dataDir)).toEqual([]);
  });
});
