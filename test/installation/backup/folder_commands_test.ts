/** What operators see of a folder of backups: files that could not be saved, and other installations. */
import { beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../../src/base/clock.ts";
import { createCommandLine, type Ended, readFindings } from "../../cli/command_line.ts";
import { useCommandLine } from "../../cli/use_command_line.ts";
import { parseExposition } from "../../support/exposition.ts";
import { findFreePort } from "../../support/find_free_port.ts";
import { useFolder } from "../../support/use_folder.ts";

setDefaultTimeout(90_000);
const folder = useFolder();
const line = useCommandLine({ prepared: true });
const BYTES = "the bytes of a model";
const SHA256 = createHash("sha256").update(BYTES).digest("hex");
const hosted = () => join(line.dataDir, "models", SHA256.slice(0, 2), SHA256);
/** Two backups of a folder are not made in the same second. */
const LATER = { clock: { ...systemClock, now: () => new Date(Date.now() + 2_000) } };
let count = 0;
const place = () => join(folder, `backups-${count}`);

beforeAll(async () => {
  await using _service = await line.serve();
  await line.json(["keys", "issue", "--email", "ada@example.org", "--tier", "free"]);
  const file = line.write("own.onnx", BYTES);
  const of = [
    "--name",
    "own",
    "--version",
    "1.0.0",
    "--type",
    "SvcLDA",
    "--paradigm",
    "p300",
    "--n-features",
    "8",
  ];
  const added = ["models", "add", ...of, "--n-classes", "2", "--requires-license", "free", "--file", file];
  expect(
    (await line.here(added, { env: { CLAVIGER_PUBLIC_URL: "https://licenses.example.org" } })).status,
  ).toBe(0);
});
beforeEach(() => {
  count++;
  writeFileSync(hosted(), BYTES);
});

const backUp = (args: readonly string[] = []) =>
  line.here(["backup", `${place()}/`, "--with-secret", ...args]);
const newest = () =>
  join(
    place(),
    readdirSync(place())
      .filter((name) => name.endsWith(".zst"))
      .toSorted()
      .at(-1) ?? "",
  );
const lastLineOf = ({ out }: Ended) => out.trimEnd().split("\n").at(-1);

describe("claviger backup with a model file that is missing or damaged", () => {
  const NAMED = `Not saved: the model file of own 1.0.0, sha256:${SHA256}: it is damaged\n`;

  test("saves the rest, names the file, ends with 3, and is observed until a backup is whole", async () => {
    writeFileSync(hosted(), "The bytes of a model");
    const ended = await backUp(["--keep", "24h"]);
    expect(ended.out).toMatch(/^Saved and verified \d+ rows of \d+ tables to \S+\.tar\.zst \(/);
    expect(lastLineOf(ended)).toBe("Not in it: 1 model file that could not be saved");
    expect([ended.status, ended.err]).toEqual([
      3,
      `${NAMED}claviger: The database is saved and verified, but 1 of 1 model file could not be: put the good files back, ` +
        "or add the models again under another version; `claviger models verify` checks all files\n",
    ]);
    const port = await findFreePort();
    await using _ = await line.serve(["--metrics-listen", `127.0.0.1:${port}`]);
    const missing = async () => {
      const families = parseExposition(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
      return [...(families.get("claviger_backup_missing_model_files")?.samples.values() ?? [])];
    };
    const row = async () => readFindings(await line.here(["doctor", "--json"])).of("backup");
    expect(await row()).toMatchObject({
      state: "warn",
      message: expect.stringMatching(
        /^taken at \d{4}-\d\d-\d\d \d\d:\d\d UTC and verified; the database is saved, 1 model file is not; the next/,
      ),
      remedy: expect.stringContaining("`claviger models verify`"),
    });
    expect(await missing()).toEqual([1]);
    writeFileSync(hosted(), BYTES);
    expect(await line.here(["backup", `${place()}/`, "--with-secret"], LATER)).toMatchObject({
      status: 0,
      err: "",
    });
    expect(await row()).toMatchObject({ state: "ok" });
    expect(await missing()).toEqual([0]);
  });

  test("prints one document with --json, and ends with 3, too", async () => {
    rmSync(hosted());
    const { status, out } = await backUp(["--json"]);
    expect(status).toBe(3);
    expect(JSON.parse(out)).toMatchObject({
      verified: true,
      models: 0,
      keys: 1,
      installation: expect.stringMatching(/^[0-9a-f]{64}$/),
      missing_models: [{ sha256: SHA256, bytes: 20, versions: ["own 1.0.0"], why: "it is missing" }],
    });
  });

  test("is verified and restored with 3, and each names what is missing", async () => {
    writeFileSync(hosted(), "The bytes of a model");
    await backUp();
    const lacks =
      `${NAMED}claviger: ${newest()} lacks 1 model file, which could not be saved when it was made: look for them in an ` +
      "earlier backup, or add the models again under another version\n";
    using elsewhere = createCommandLine();
    const verified = await elsewhere.run(["backup", "--verify", newest()]);
    expect(verified).toMatchObject({ status: 3, err: lacks });
    expect(verified.out).toStartWith(`${newest()} is intact: `);
    const document = await elsewhere.run(["backup", "--verify", newest(), "--json"]);
    expect(JSON.parse(document.out)).toMatchObject({ whole: false, missing_models: [{ sha256: SHA256 }] });
    const restored = await elsewhere.here(["restore", newest()]);
    expect(restored).toMatchObject({ status: 3, err: lacks });
    expect(await elsewhere.json(["keys", "list"])).toHaveLength(1);
  });

  test("saves the rest to standard output and to a single file, and ends with 3", async () => {
    writeFileSync(hosted(), "The bytes of a model");
    const args = [
      "backup",
      "-",
      "--with-models",
      "--with-secret",
      "--env-file=/dev/null",
      "--data-dir",
      line.dataDir,
    ];
    // In a process of its own, because the backup itself goes to the descriptor of standard output.
    const piped = Bun.spawn([process.execPath, "src/main.ts", ...args], {
      cwd: join(import.meta.dir, "../../.."),
      env: { PATH: "/usr/bin:/bin" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const bytes = await new Response(piped.stdout).bytes();
    const err = await new Response(piped.stderr).text();
    expect(err).toMatch(/^Saved \d+ rows of \d+ tables to standard output /);
    expect(err).toContain("\nclaviger: The database is saved, but 1 of 1 model file could not be: ");
    expect(await piped.exited).toBe(3);
    const verified = await line.here(["backup", "--verify", "-"], { input: bytes });
    expect([verified.status, verified.err]).toEqual([3, expect.stringContaining(NAMED)]);
    const single = join(folder, "single.tar.zst");
    expect((await line.here(["backup", single, "--with-models"])).status).toBe(3);
    expect((await line.here(["backup", "--verify", single])).status).toBe(3);
  });
});

describe("the last line of claviger backup", () => {
  test("says what is not in it, and where that must be kept", async () => {
    const single = (name: string, ...more: string[]) => line.here(["backup", join(folder, name), ...more]);
    const secret = join(line.dataDir, "secret");
    const models = join(line.dataDir, "models");
    const lines = [
      await backUp(),
      await line.here(["backup", join(folder, "other/")]),
      await single("all", "--with-secret", "--with-models"),
      await single("none"),
      await single("no-models", "--with-secret"),
      await single("no-secret", "--with-models"),
    ].map((ended) => [ended.status, lastLineOf(ended)]);
    expect(lines).toEqual([
      [
        0,
        `Nothing is left out: the model files are in ${place()}/models, and whoever can read the backup has the secret`,
      ],
      [0, `Not in it: the secret; keep a copy of ${secret} in another place, because a restore needs it`],
      [0, "Nothing is left out: whoever can read the backup has the secret"],
      [
        0,
        `Not in it: the secret and 1 model file; keep copies of ${secret} and the folder ${models} in another place, ` +
          "because a restore needs them",
      ],
      [
        0,
        `Not in it: 1 model file; keep a copy of the folder ${models} in another place, because a restore needs it`,
      ],
      [0, `Not in it: the secret; keep a copy of ${secret} in another place, because a restore needs it`],
    ]);
  });
});

describe("claviger backup into the folder of another installation", () => {
  test("ends with 78, is overdue, and is accepted with --into-shared-folder", async () => {
    await backUp();
    using other = createCommandLine({ prepared: true });
    await (await other.serve()).stop();
    const refused = await other.here(["backup", place(), "--with-secret"]);
    expect(refused).toMatchObject({ status: 78, out: "" });
    expect(refused.err).toContain(" with 1 key, and this database is new there and has no key; ");
    const taken = readFindings(await other.here(["doctor", "--json"])).of("backup");
    expect(taken?.message).toStartWith("none since this database was made at ");
    const accepted = await other.here(["backup", place(), "--with-secret", "--into-shared-folder"], LATER);
    expect(accepted).toMatchObject({ status: 0, err: "" });
    expect(existsSync(join(place(), "accepted-installations"))).toBe(true);
    const single = await other.here(["backup", join(folder, "one"), "--into-shared-folder"]);
    expect(single.status).toBe(2);
  });
});
