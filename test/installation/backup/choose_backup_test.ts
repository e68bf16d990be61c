/** `claviger restore FOLDER/` shows the backups and chooses none that could stand in place of lost data. */
import { beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { systemClock } from "../../../src/base/clock.ts";
import { type CommandLine, createCommandLine, readFindings, refusalOf } from "../../cli/command_line.ts";
import { useServing } from "../../cli/use_command_line.ts";
import { useFolder } from "../../support/use_folder.ts";

setDefaultTimeout(90_000);
const folder = useFolder();
const FIXTURE = join(import.meta.dir, "fixtures/0.1.0.tar.zst");
/**
 * An installation with two keys, and one as a first start in place of its lost data makes it. Their services run, because
 * each command would start PostgreSQL otherwise.
 */
const { line } = useServing();
const { line: begunAnew } = useServing();
/** The path of a backup that was taken while the installation had one key. */
let withOneKey = "";
let count = 0;
const place = () => join(folder, `backups-${count}`);

beforeAll(async () => {
  await line.json(["keys", "issue", "--email", "ada@example.org", "--tier", "free"]);
  withOneKey = join(place(), await add(line, -2));
  await line.json(["keys", "issue", "--email", "grace@example.org", "--tier", "free"]);
});
beforeEach(() => void count++);

/** Adds a backup as of so many days from now, and returns its name. */
async function add(of: CommandLine, days: number, more: readonly string[] = []): Promise<string> {
  const clock = { ...systemClock, now: () => new Date(Date.now() + days * 86_400_000) };
  const args = ["backup", `${place()}/`, "--with-secret", ...more];
  const { file } = await of.json(args, { clock });
  return file.slice(place().length + 1);
}
const dayOf = (name: string) => name.slice("claviger-".length, "claviger-".length + 10);

describe("claviger restore FOLDER/", () => {
  test("lists the backups, the newest last, within 80 columns, and says how to restore it", async () => {
    const first = basename(withOneKey);
    mkdirSync(place());
    copyFileSync(withOneKey, join(place(), first));
    const second = await add(line, -1);
    using elsewhere = createCommandLine({ prepared: true });
    const { status, out, err } = await elsewhere.here(["restore", `${place()}/`], { columns: 80 });
    expect([status, err]).toEqual([0, ""]);
    const [heading, one, two, ...rest] = out.trimEnd().split("\n");
    expect(heading).toMatch(/^DAY +KEYS {2}INSTALLATION {2}FILE/);
    expect(one).toMatch(new RegExp(`^${dayOf(first)} +1 {2}[0-9a-f]{8} +${first}`));
    expect(two).toMatch(new RegExp(`^${dayOf(second)} +2 {2}[0-9a-f]{8} +${second}`));
    for (const text of [heading, one, two]) expect(text?.trimEnd().length).toBeLessThanOrEqual(80);
    const place_ = ["--data-dir", elsewhere.dataDir, "--env-file", join(elsewhere.folder, "empty.env")].join(
      " ",
    );
    expect(rest.join("\n")).toBe(
      `To restore the newest: \`./claviger restore ${place()}/${second} ${place_}\``,
    );
    const document = await elsewhere.json(["restore", place()]);
    expect(document).toMatchObject({
      newest_is_safe: true,
      backups: [
        { file: join(place(), first), keys: 1, missing_models: [] },
        { file: join(place(), second), keys: 2, with_secret: true },
      ],
      unreadable: [],
    });
    const restored = await elsewhere.here(["restore", place(), "--newest"]);
    expect(restored).toMatchObject({ status: 0, err: "" });
    expect(restored.out).toContain(` from ${place()}/${second}, made `);
    expect(restored.out).toMatch(/, installation [0-9a-f]{8} with 2 keys \(/);
  });

  test("never restores by itself a newest backup with fewer keys, and names both", async () => {
    const good = await add(line, -2);
    const empty = await add(begunAnew, -1, ["--into-shared-folder"]);
    using elsewhere = createCommandLine();
    const why = `the newest, ${empty} of ${dayOf(empty)} has 0 keys, and ${good} of ${dayOf(good)} has 2 keys`;
    const { status, out } = await elsewhere.run(["restore", `${place()}/`]);
    expect(status).toBe(0);
    expect(out).toEndWith(
      `\nChoose one yourself: ${why}\n  \`./claviger restore ${place()}/${good}\`\n  \`./claviger restore ${place()}/${empty}\`\n`,
    );
    for (const args of [
      ["restore", place(), "--newest"],
      ["restore", place(), "--newest", "--json"],
    ]) {
      const refused = await elsewhere.here(args);
      expect(refusalOf(refused)).toBe(
        `Cannot choose a backup of ${place()}: ${why}; \`claviger restore ${place()}/\` lists all, and you name one`,
      );
      expect(readdirSync(elsewhere.folder)).toEqual(["empty.env"]);
    }
  });

  test("chooses none among the backups of two installations, after a clock that was wrong, or beside a damaged one", async () => {
    await add(begunAnew, -2);
    await add(line, -1, ["--into-shared-folder"]);
    using elsewhere = createCommandLine();
    const whyNot = async () => refusalOf(await elsewhere.here(["restore", place(), "--newest"]));
    expect(await whyNot()).toContain("the backups are of 2 installations; ");
    count++;
    await add(line, -1);
    const ahead = await add(line, 3);
    expect(await whyNot()).toContain(`the newest, ${ahead}, was made in the future, so a clock was wrong; `);
    truncateSync(join(place(), ahead), 500);
    expect(await whyNot()).toContain(`${ahead} cannot be read (`);
    const { out, err } = await elsewhere.run(["restore", place()]);
    expect([out, err]).toEqual([
      expect.stringContaining("Choose one yourself: "),
      expect.stringContaining(ahead),
    ]);
  });

  test("counts the keys of an earlier format", async () => {
    mkdirSync(place());
    copyFileSync(FIXTURE, join(place(), "1.tar.zst"));
    using elsewhere = createCommandLine();
    const { backups } = await elsewhere.json(["restore", place()]);
    expect(backups).toEqual([expect.objectContaining({ installation: null, keys: expect.any(Number) })]);
    expect(backups[0].keys).toBeGreaterThan(5);
    expect(await elsewhere.here(["restore", place(), "--newest"])).toMatchObject({ status: 0 });
  });

  test("says which folder has no backup, does not exist or cannot be read, and that --newest needs a folder", async () => {
    using elsewhere = createCommandLine();
    const run = async (...args: string[]) => {
      const { status, err } = await elsewhere.here(["restore", ...args]);
      return [status, err.split("\n")[0]];
    };
    expect(await run(`${place()}/`)).toEqual([
      1,
      `claviger: Cannot read the folder of backups ${place()}: it does not exist`,
    ]);
    mkdirSync(place());
    expect(await run(place(), "--newest")).toEqual([
      1,
      `claviger: There is no backup in ${place()}: name the folder that \`claviger backup\` wrote to`,
    ]);
    writeFileSync(join(place(), "file"), "");
    expect(await run(`${place()}/file/`)).toEqual([
      1,
      `claviger: Cannot read the folder of backups ${place()}/file: it is a file`,
    ]);
    expect((await run(join(place(), "file"), "--newest"))[0]).toBe(2);
    // No unit names a folder here.
    expect((await elsewhere.here(["restore"], { env: { PATH: "/nonexistent" } })).status).toBe(2);
    rmSync(place(), { recursive: true });
  });

  test("without an argument lists the folder of the backup's unit, and doctor looks there, too", async () => {
    const name = await add(line, -1);
    const tools = join(folder, "tools");
    mkdirSync(tools);
    const words = ["/usr/bin/claviger", "backup", `${place()}/`, "--with-secret", "--keep", "24h,7d,5w"];
    const answer = JSON.stringify({
      type: "a(sasbttttuii)",
      data: [["/usr/bin/claviger", words, false, 0, 0, 0, 0, 0, 0, 0]],
    });
    writeFileSync(
      join(tools, "busctl"),
      `#!/bin/sh\ncase "$*" in *claviger_2dbackup_2eservice*ExecStart) echo '${answer}' ;; *) exit 1 ;; esac\n`,
    );
    chmodSync(join(tools, "busctl"), 0o755);
    const env = { PATH: tools };
    using elsewhere = createCommandLine({ prepared: true });
    expect((await elsewhere.here(["restore"], { env })).out).toContain(name);
    expect((await elsewhere.here(["restore", "--newest"], { env })).status).toBe(0);
    const found = readFindings(await begunAnew.here(["doctor", "--json"], { env })).of("keys");
    expect(found).toMatchObject({
      state: "fail",
      message: expect.stringContaining(`the backup ${name} in ${place()}`),
    });
  });
});

describe("claviger backup --verify FOLDER/", () => {
  test("verifies the newest backup", async () => {
    await add(line, -2);
    const name = await add(line, -1);
    const { status, out } = await line.run(["backup", "--verify", `${place()}/`]);
    expect([status, out]).toEqual([0, expect.stringContaining(`${name} is whole: `)]);
  });
});

describe("the row keys of claviger doctor", () => {
  test("fails for an installation without a key whose backups have some, unless it was accepted beside them", async () => {
    const row = async (of: CommandLine, ...more: string[]) =>
      readFindings(await of.here(["doctor", "--json", ...more], { env: { PATH: "/nonexistent" } })).of(
        "keys",
      );
    expect(await row(begunAnew)).toMatchObject({
      state: "ok",
      message: "none in this database; compare its backups with --backups FOLDER",
    });
    expect(await row(begunAnew, "--backups", place())).toMatchObject({
      state: "ok",
      message: `none in this database; there is no folder ${place()}`,
    });
    const own = await add(begunAnew, -3);
    expect(await row(begunAnew, "--backups", place())).toMatchObject({ state: "ok" });
    const damaged = join(place(), "damaged.tar.zst");
    writeFileSync(damaged, "no backup");
    // Beside a backup of its own it tells nothing.
    expect(await row(begunAnew, "--backups", place())).toMatchObject({ state: "ok" });
    rmSync(join(place(), own));
    expect(await row(begunAnew, "--backups", place())).toEqual({
      name: "keys",
      state: "warn",
      message: expect.stringContaining(`the backup damaged.tar.zst in ${place()} cannot be read: `),
      remedy: "if the data was lost, restore another copy of the backup; otherwise move the file away",
    });
    rmSync(damaged);
    const name = await add(line, -2);
    expect(await row(begunAnew, "--backups", `${place()}/`)).toEqual({
      name: "keys",
      state: "fail",
      message: `none in this database, and the backup ${name} in ${place()} of ${dayOf(name)} has 2 keys`,
      remedy: `if the data was lost, \`claviger restore ${place()}\` lists the backups; otherwise see \`claviger guide backups\``,
    });
    const spaced = `${place()} of the shop`;
    renameSync(place(), spaced);
    expect(await row(begunAnew, "--backups", spaced)).toMatchObject({
      remedy: expect.stringContaining(`\`claviger restore '${spaced}'\` lists the backups`),
    });
    renameSync(spaced, place());
    expect(await row(line, "--backups", place())).toMatchObject({ state: "ok", message: "2 keys" });
    await add(begunAnew, -1, ["--into-shared-folder"]);
    expect(await row(begunAnew, "--backups", place())).toMatchObject({ state: "ok" });
  });
});
