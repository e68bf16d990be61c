/** The commands `claviger backup` and `claviger restore`, as an operator runs them. */
import { beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type CommandLine, createCommandLine, refusalOf, usageErrorOf } from "../../cli/command_line.ts";
import { useCommandLine } from "../../cli/use_command_line.ts";
import { createTestClock } from "../../support/clock.ts";
import { createExternalDatabase } from "../../support/external_database.ts";
import { useForAll } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { otherSecret } from "./backup_kit.ts";

// A busy machine takes half a minute for a restore and the start of a service.
setDefaultTimeout(90_000);
const folder = useFolder();
const file = (name: string) => join(folder, name);
/** The installation that is backed up. Its service runs in all tests, so that no command has to start PostgreSQL. */
const line = useCommandLine({ prepared: true });
/** What a backup without a service printed. */
let printed: Record<string, unknown>;

beforeAll(async () => {
  const service = await line.serve();
  const key = await line.json(["keys", "issue", "--email", "ada@example.org", "--tier", "free"]);
  expect(key.id).toStartWith("key_");
  await line.here(["installer", "set-token"], { input: "the-token" });
  await line.json(["backup", file("plain")]);
  await service.stop();
  printed = await line.json(["backup", file("secret"), "--with-secret", "--with-models"]);
});
useForAll(async () => {
  const { stop } = await line.serve();
  return { close: async () => void (await stop()) };
});

const secretOf = (at: CommandLine) => join(at.dataDir, "secret");

describe("claviger backup", () => {
  test("works while a service runs, and prints one line about the saved rows", async () => {
    const ended = await line.here(["backup", file("served")]);
    expect(ended).toMatchObject({ status: 0, err: "" });
    expect(ended.out).toMatch(
      /^Saved and verified \d+ rows of \d+ tables to \S+served \(\d+ kB, [\d.]+ s\)\nNot in it: the secret(?: and 1 model file)?;/,
    );
    expect(refusalOf(await line.here(["restore", file("plain")]))).toBe(
      `Cannot restore into ${line.dataDir}: a service runs there; stop it, or name an empty ` +
        "folder with --data-dir",
    );
  });

  test("works without a service, and prints JSON", () => {
    expect(printed).toMatchObject({
      file: file("secret"),
      bytes: statSync(file("secret")).size,
      brand: "svc",
      verified: true,
      with_secret: true,
      with_models: true,
      tables: { keys: 1, installer_token: 1, secret_canary: 1 },
    });
    const digest = new Bun.CryptoHasher("sha256").update(readFileSync(file("secret"))).digest("hex");
    expect(printed.sha256).toBe(digest);
  });

  test("--verify reads a file without a database, and refuses other options", async () => {
    using elsewhere = createCommandLine();
    const ended = await elsewhere.run(["backup", "--verify", file("plain")]);
    expect(ended.out).toMatch(
      / is whole: \d+ rows of \d+ tables, made \S+Z by Claviger \S+, schema \d+, installation [0-9a-f]{8} with 1 key\n$/,
    );
    expect(existsSync(elsewhere.dataDir)).toBe(false);
    const both = await elsewhere.run(["backup", "--verify", "--with-secret", file("plain")]);
    expect(usageErrorOf(both)).toContain("cannot be used with");
  });

  test("refuses an existing file, a missing folder, and an empty database", async () => {
    await using external = await createExternalDatabase({ empty: true });
    const env = { DATABASE_URL: external.url };
    writeFileSync(file("existing"), "");
    expect(refusalOf(await line.here(["backup", file("existing")]))).toBe(
      `Cannot write ${file("existing")}: there is a file of that name; choose another, or replace it ` +
        "with --force",
    );
    expect((await line.here(["backup", file("existing"), "--force"])).status).toBe(0);
    expect(refusalOf(await line.here(["backup", file("no/where")]))).toContain(
      "there is no such file or folder",
    );
    symlinkSync(file("loop"), file("loop"));
    expect(refusalOf(await line.here(["backup", file("loop")]))).toStartWith(
      `Cannot write ${file("loop")}: `,
    );
    expect(refusalOf(await line.here(["backup", file("empty")], { env }))).toContain("the database is empty");
    expect(refusalOf(await line.here(["backup", file("x"), "--with-secret"], { env }))).toBe(
      "Cannot back up the secret: none is given; name its file in CLAVIGER_SECRET_FILE",
    );
  });

  test("verifies and restores a backup that comes through standard input, and leaves nothing in TMPDIR", async () => {
    const input = readFileSync(file("plain"));
    mkdirSync(file("tmp"));
    const env = { TMPDIR: file("tmp") };
    const { out } = await line.here(["backup", "--verify", "-"], { input, env });
    expect(out).toStartWith("standard input is whole: ");
    using other = createCommandLine({ prepared: true });
    const args = ["restore", "-", "--forget-sealed"];
    const restored = await other.here(args, { input, env });
    expect(restored).toMatchObject({
      status: 0,
      out: expect.stringContaining(" from standard input, made "),
    });
    const none = await other.here(args, { input, env: { TMPDIR: file("no/where") } });
    expect(refusalOf(none)).toStartWith(
      `Cannot keep standard input in ${file("no/where")} while it is read twice: `,
    );
    expect(readdirSync(env.TMPDIR)).toEqual([]);
  });

  test("writes no backup to a terminal", async () => {
    const { status, out, err } = await line.here(["backup", "-"], {
      isTerminal: true,
      columns: 80,
      env: { NO_COLOR: "1" },
    });
    expect([status, out]).toEqual([1, ""]);
    expect(err).toBe("claviger: Cannot write a backup to a terminal: name a file, or pipe it to a program\n");
  });

  test("shows its progress only on a terminal, and ends at a signal", async () => {
    const shown = await line.here(["backup", file("shown")], { isTerminal: true });
    expect(shown.err).toContain("\r\u001b[Ksaving accounts: 1 of 1");
    expect(shown.err).toEndWith("\r\u001b[K");
    const stopped = await line.here(["backup", file("stopped")], { signal: "SIGINT" });
    expect(refusalOf(stopped)).toBe("Stopped by SIGINT: nothing was changed");
    expect(readdirSync(folder).filter((name) => name.startsWith("stopped"))).toEqual([]);
  });
});

describe("claviger backup FOLDER/ and claviger restore FOLDER/", () => {
  let count = 0;
  const place = () => file(`backups-${count}`);
  const names = () =>
    readdirSync(place())
      .filter((name) => name.endsWith(".zst"))
      .toSorted();
  let model: string;

  beforeAll(async () => {
    const env = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org" };
    model = line.write("own.onnx", "the bytes of a model");
    const args = [
      "models",
      "add",
      "--name",
      "own",
      "--version",
      "1.0.0",
      "--type",
      "SvcLDA",
      "--paradigm",
      "p300",
    ];
    const sizes = ["--n-features", "8", "--n-classes", "2", "--requires-license", "free", "--file", model];
    expect(await line.here([...args, ...sizes], { env })).toMatchObject({ status: 0 });
  });
  beforeEach(() => void count++);

  /** Adds a backup to the folder of the test, and returns its path. */
  async function add(): Promise<string> {
    expect((await line.here(["backup", `${place()}/`, "--with-secret"])).status).toBe(0);
    return join(place(), names().at(-1) ?? "");
  }

  test("makes a folder, adds a backup to it each time, and removes those that --keep does not keep", async () => {
    const first = await line.here(["backup", `${place()}/`, "--with-secret"]);
    const [name = ""] = names();
    expect(first.out).toMatch(/^Saved and verified \d+ rows of \d+ tables and 1 model file to /);
    expect(first.out).toContain(` to ${join(place(), name)} (`);
    const afterHours = (hours: number) => {
      const clock = createTestClock();
      clock.advance(hours * 3_600_000);
      return clock;
    };
    const second = await line.json(["backup", place(), "--with-secret", "--keep", "2h"], {
      clock: afterHours(1),
    });
    expect(second).toMatchObject({ verified: true, with_models: false, models: 1 });
    expect(second).toMatchObject({ removed_backups: 0, removed_models: 0 });
    expect(second.file).toBe(join(place(), names()[1] ?? ""));
    const keep = ["--with-secret", "--keep", "1h"];
    const third = await line.here(["backup", `${place()}/`, ...keep], { clock: afterHours(2) });
    expect(third.out).toContain("\nRemoved 2 earlier backups and 0 model files\n");
    expect(names()).toHaveLength(1);
  });

  test("refuses options of a single file for a folder, and of a folder for a single file", async () => {
    mkdirSync(place());
    for (const args of [
      ["backup", `${place()}/`, "--with-models"],
      ["backup", place(), "--force"],
      ["backup", file("one"), "--keep", "1h"],
      ["backup", place(), "--verify", "--keep", "1h"],
    ])
      usageErrorOf(await line.here(args));
    expect(usageErrorOf(await line.here(["backup", place(), "--keep", "1m"]))).toContain("such as 24h,7d,5w");
  });

  test("verifies a backup and its model files, without a database", async () => {
    using elsewhere = createCommandLine();
    const path = await add();
    const whole = await elsewhere.run(["backup", "--verify", path]);
    expect(whole).toMatchObject({ status: 0, err: "" });
    expect(whole.out).toContain(" and 1 model file, made ");
    const digest = new Bun.CryptoHasher("sha256").update("the bytes of a model").digest("hex");
    const kept = join(place(), "models", digest.slice(0, 2), digest);
    writeFileSync(kept, "The bytes of a model");
    expect(refusalOf(await elsewhere.run(["backup", "--verify", path]))).toContain(`${kept} is changed`);
    expect(refusalOf(await elsewhere.here(["restore", path]))).toContain(`${kept} is changed`);
  });

  test("restores a backup with its model files, and from standard input without them", async () => {
    const path = await add();
    using restored = createCommandLine({ prepared: true });
    const ended = await restored.here(["restore", path]);
    expect(ended).toMatchObject({ status: 0, err: "" });
    expect(ended.out).toMatch(
      /^Restored \d+ rows of \d+ tables and 1 model file from \S+claviger-\S+zst, made /,
    );
    expect((await restored.here(["models", "verify"])).out).toContain("own 1.0.0  good ");
    using piped = createCommandLine({ prepared: true });
    const withoutModels = await piped.here(["restore", "-"], { input: readFileSync(path) });
    expect(withoutModels.out).toMatch(/^Restored \d+ rows of \d+ tables from standard input, made /);
    expect(withoutModels.out).toContain(
      "\nNo model files were restored: copy the folder models beside the backup to ",
    );
  });
});

describe("claviger restore", () => {
  test("with the secret in the file creates an installation that serves like the old one", async () => {
    using restored = createCommandLine();
    const ended = await restored.here(["restore", file("secret")]);
    expect(ended).toMatchObject({ status: 0, err: "" });
    expect(ended.out).toMatch(/^Restored \d+ rows of \d+ tables from \S+, made \S+Z by Claviger \S+, schema/);
    expect(ended.out).toEndWith(`\nThe secret is in ${secretOf(restored)}\n`);
    expect(readFileSync(secretOf(restored), "utf8")).toBe(readFileSync(secretOf(line), "utf8"));
    expect(statSync(secretOf(restored)).mode & 0o777).toBe(0o600);
    const again = await restored.here(["restore", file("secret")]);
    expect(refusalOf(again)).toContain(
      `the database in ${restored.dataDir} is not empty (accounts has rows)`,
    );

    const [audit] = await restored.json(["audit", "--limit", "1"]);
    expect(audit).toMatchObject({ actor: "command:olga", action: "database.restore" });
    const service = await restored.serve();
    expect((await fetch(`${service.url}/api/health`)).status).toBe(200);
    await service.stop();
  });

  test("without the secret in the file asks for the old secret before it creates anything", async () => {
    using restored = createCommandLine();
    expect(refusalOf(await restored.here(["restore", file("plain")]))).toBe(
      `Cannot restore ${file("plain")}: the backup has no secret, and its sealed data needs the secret ` +
        `of the installation that made the backup; put the right secret into ${secretOf(restored)}, or name its ` +
        "file in CLAVIGER_SECRET_FILE, or leave out the repository token and the keys that sign licenses with --forget-sealed",
    );
    const env = { CLAVIGER_SECRET: otherSecret() };
    const wrong = await restored.here(["restore", file("plain")], { env });
    expect(refusalOf(wrong)).toContain(
      "made the backup; the secret of CLAVIGER_SECRET is another one; put the right secret into",
    );
    expect(existsSync(restored.dataDir)).toBe(false);

    const right = { CLAVIGER_SECRET_FILE: secretOf(line) };
    const ended = await restored.here(["restore", file("plain")], { env: right });
    expect(ended).toMatchObject({ status: 0, err: "" });
    expect(existsSync(secretOf(restored))).toBe(false);
    expect(ended.out).toEndWith(
      `This command used the secret of the file ${secretOf(line)}, and ${restored.dataDir} has none: give the ` +
        `service the same secret, by CLAVIGER_SECRET_FILE or as the file ${secretOf(restored)}\n`,
    );
  });

  test("--forget-sealed restores everything except the rows that the lost secret sealed", async () => {
    using restored = createCommandLine({ prepared: true });
    const { next, tables } = await restored.json(["restore", file("plain"), "--forget-sealed"]);
    expect(tables.keys).toBe(1);
    expect(next).toEqual([
      "There is no repository token: set one with `claviger installer set-token`",
      expect.stringMatching(/^The next start makes new keys to sign licenses/),
      expect.stringContaining("needs --into-shared-folder once"),
    ]);
    expect(await restored.json(["keys", "list"])).toHaveLength(1);
    // A command makes the keys if it comes before the next start, and then it has to say so.
    const env = { CLAVIGER_SECRET: otherSecret() };
    const { status, err } = await restored.here(["licenses", "rotate-signing-key"], { env });
    expect({ status, err }).toEqual({
      status: 0,
      err: expect.stringContaining("clients that pinned the earlier keys will refuse new licenses"),
    });
  });

  test("disables the tokens of programs, and says so and how to resume them", async () => {
    for (const name of ["shop", "desk", "lost"]) {
      await line.json(["tokens", "issue", "--name", name, "--scope", "keys:read"]);
    }
    await line.here(["tokens", "revoke", "lost"]);
    await line.here(["backup", file("tokens"), "--with-secret"]);
    using restored = createCommandLine({ prepared: true });
    const { out } = await restored.here(["restore", file("tokens")]);
    expect(out).toEndWith(
      "\n2 tokens are disabled, because a token may have been revoked or renewed after the backup was made: " +
        "`claviger tokens list` shows them, and `claviger tokens resume NAME` lets one in again, with the secret that " +
        "it had in the backup\n",
    );
    const resume = (name: string) => restored.here(["tokens", "resume", name]);
    expect((await resume("shop")).out).toBe("name   shop\nstate  active\n");
    expect(refusalOf(await resume("lost"))).toContain("it is revoked, which is final");
    const renewed = await restored.here(["tokens", "renew", "desk"]);
    expect(renewed.err).toContain(
      "A restore disabled the token: `claviger tokens resume desk` lets it in again",
    );
    const states = (await restored.json(["tokens", "list"])).map(({ state }: { state: string }) => state);
    expect(states).toEqual(["disabled", "revoked", "active"]);
  });

  test("refuses a data folder whose secret differs from the secret in the file", async () => {
    using restored = createCommandLine();
    mkdirSync(restored.dataDir, { mode: 0o700 });
    writeFileSync(secretOf(restored), otherSecret());
    expect(refusalOf(await restored.here(["restore", file("secret")]))).toBe(
      `Cannot restore ${file("secret")}: the backup has its own secret, and ${secretOf(restored)} is another one; ` +
        "remove that secret first",
    );
    expect(readdirSync(restored.dataDir)).toEqual(["secret"]);
  });

  test("refuses another brand, and names both", async () => {
    const env = { CLAVIGER_BRAND: "acme" };
    using other = createCommandLine();
    expect(refusalOf(await other.here(["restore", file("secret")], { env }))).toContain(
      "its keys have the brand svc, and this installation has the brand acme; set CLAVIGER_BRAND=svc",
    );
  });

  test("moves an installation from the database inside to an external database and back", async () => {
    await using external = await createExternalDatabase({ empty: true });
    const at = { DATABASE_URL: external.url };
    using other = createCommandLine();
    const ended = await other.here(["restore", file("secret")], { env: at });
    expect(ended).toMatchObject({ status: 0, err: "" });
    expect(ended.out).toContain(
      `give the service the backup's secret: \`tar --zstd -xOf ${file("secret")} secret\` prints it`,
    );
    const again = await other.here(["restore", file("secret")], { env: at });
    expect(refusalOf(again)).toContain("or a folder with --data-dir and settings without DATABASE_URL");
    const printed = Bun.spawnSync(["tar", "--zstd", "-xOf", file("secret"), "secret"]);
    const env = { ...at, CLAVIGER_SECRET: printed.stdout.toString().trim() };
    const saved = await other.json(["backup", file("external"), "--with-secret"], { env });
    expect(saved.tables).toMatchObject({ keys: 1, installer_token: 1 });

    using back = createCommandLine({ prepared: true });
    expect((await back.here(["restore", file("external")])).status).toBe(0);
    const [before] = await line.json(["keys", "list"]);
    expect(await back.json(["keys", "list"])).toEqual([before]);
  });
});
