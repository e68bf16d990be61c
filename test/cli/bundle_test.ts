/** Tests `claviger bundle …` as an operator uses it, while a service runs. */
import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createIssuer } from "./command_line.ts";
import { useServing } from "./use_command_line.ts";

const { line } = useServing();
const issue = createIssuer(line);
const env = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org" };

const MODEL = ["--type", "SvcLDA", "--n-features", "4", "--n-classes", "2", "--paradigm", "p300"];

/** Hosts a model for every tier. */
async function host(name: string, text: string): Promise<void> {
  const file = line.write(`${name}.onnx`, text);
  const args = ["models", "add", "--name", name, "--version", "1.0", ...MODEL, "--requires-license", "free"];
  await line.json([...args, "--file", file], { env });
}

const make = (args: readonly string[], options?: object) => line.here(["bundle", "make", ...args], options);

async function countExports(): Promise<number> {
  return (await line.json(["licenses", "outstanding", "--limit", "1000"])).filter(
    ({ kind }: { kind: string }) => kind === "exported",
  ).length;
}

function folder(name: string): string {
  const path = join(line.folder, name);
  mkdirSync(path);
  return path;
}

const DAY = new Date().toISOString().slice(0, 10);

test("claviger bundle make and verify: a license, its models and added files in one file, which pinned keys verify", async () => {
  await host("wave", "the bytes of wave");
  const key = await issue();
  line.write("core-1.0.whl", "the core package");
  const to = join(line.folder, "customer.tar");
  const args = ["--key", key.id, "--days", "30", "--fingerprint", "workstation-7"];
  const made = await make([...args, "--add", "core-1.0.whl", "--to", "customer.tar"]);
  expect(made).toMatchObject({
    status: 0,
    out: expect.stringMatching(/^Wrote .*customer\.tar \(\S+ kB\): a license, 1 model and 1 added file\n$/),
    err: expect.stringMatching(
      /^The license is valid until \S+; a revocation of the key does not end it earlier\n$/,
    ),
  });
  expect(statSync(to).mode & 0o777).toBe(0o600);
  const jwks = line.write("keys.json", (await line.here(["licenses", "public-keys"])).out);
  const verified = await line.run(["bundle", "verify", to, "--jwks", jwks, "--json"]);
  expect([verified.status, verified.err]).toEqual([0, ""]);
  const read = JSON.parse(verified.out);
  expect(read).toMatchObject({
    valid: true,
    manifest: {
      key_id: key.id,
      fingerprint: "workstation-7",
      files: [
        { path: "files/core-1.0.whl", kind: "file", good: true },
        { path: "license.jws", kind: "license", good: true },
        { path: "models/wave-1.0.onnx", kind: "model", name: "wave", version: "1.0", good: true },
      ],
    },
    license: { key_id: key.id, fingerprint: "workstation-7" },
  });
  const shown = await line.here(["bundle", "verify", to]);
  expect([shown.status, shown.err]).toEqual([0, ""]);
  expect(shown.out).toContain("yes; not checked: revocation since then\n");
  expect(shown.out).toMatch(/models\/wave-1\.0\.onnx +good +17 {2}[0-9a-f]{64}\n/);
  // Whose license it is, and for which audience it is signed.
  expect(shown.out).toMatch(/^account +usr_[0-9a-f]{32}\n/);
  expect(shown.out).toMatch(/\naudience +svc\n/);
  // The license in it is one that `licenses verify` accepts, and the manifest is not.
  const untarred = folder("untarred");
  expect(Bun.spawnSync(["tar", "-xf", to], { cwd: untarred }).exitCode).toBe(0);
  expect((await line.here(["licenses", "verify", join(untarred, "license.jws")])).status).toBe(0);
  expect(await line.here(["licenses", "verify", join(untarred, "manifest.jws")])).toMatchObject({
    status: 1,
    err: expect.stringContaining("its header is not that of a license"),
  });
  const [row] = await line.json(["audit", "--limit", "1"]);
  expect(row).toMatchObject({ action: "license.export", after: { jti: read.manifest.jti } });

  const bytes = readFileSync(to);
  const at = bytes.indexOf("the bytes of wave");
  bytes.write("thE", at);
  const changed = join(line.folder, "changed.tar");
  writeFileSync(changed, bytes);
  const refused = await line.here(["bundle", "verify", changed]);
  expect(refused).toMatchObject({
    status: 1,
    out: expect.stringMatching(/models\/wave-1\.0\.onnx +changed/),
    err: `claviger: The bundle in ${changed} is not good: models/wave-1.0.onnx is not what the manifest says\n`,
  });
  bytes[0] = 0;
  writeFileSync(changed, bytes);
  expect(await line.here(["bundle", "verify", changed])).toMatchObject({
    status: 1,
    out: "",
    err: `claviger: Cannot verify ${changed}: it is no genuine bundle: the header of a file has another form\n`,
  });
});

describe("claviger bundle make for several machines", () => {
  test("writes a file for each, whose name says customer, machine and day", async () => {
    const key = await issue("--organization", "Engines & Co", "--max-machines", "3");
    const to = folder("several");
    // With a byte order mark, as Windows writes it.
    const list = line.write("machines.txt", "\uFEFFworkstation-1\r\nworkstation-2\n\nBench 3/b\n");
    const before = await countExports();
    const args = ["--key", key.id, "--days", "30", "--fingerprints", list, "--without-models", "--to", to];
    const { bundles, refused, files } = await line.json(["bundle", "make", ...args]);
    expect({ refused, files }).toEqual({ refused: [], files: [] });
    const names = readdirSync(to).sort();
    expect(names).toEqual([
      expect.stringMatching(/^Engines-Co-Bench-3-b-[0-9a-f]{12}-2\d{3}-\d\d-\d\d\.tar$/),
      `Engines-Co-workstation-1-${DAY}.tar`,
      `Engines-Co-workstation-2-${DAY}.tar`,
    ]);
    expect(bundles).toMatchObject(
      ["workstation-1", "workstation-2", "Bench 3/b"].map((fingerprint) => ({
        fingerprint,
        machine_id: expect.stringMatching(/^mch_/),
        warning: expect.stringContaining("The machine keeps its place until "),
      })),
    );
    expect(new Set(bundles.map(({ machine_id }: { machine_id: string }) => machine_id)).size).toBe(3);
    for (const name of names) expect((await line.here(["bundle", "verify", join(to, name)])).status).toBe(0);
    expect(await countExports()).toBe(before + 3);
  });

  test("says before that places are taken and until when, and makes nothing at a terminal without a yes", async () => {
    const key = await issue("--max-machines", "2");
    const to = folder("asked");
    const machines = ["--fingerprint", "workstation-1", "--fingerprint", "workstation-2"];
    const args = ["--key", key.id, "--days", "30", ...machines, "--without-models", "--to", to];
    const before = await countExports();
    const asked = await make(args, { isTerminal: true, isTyped: true, input: "no\n" });
    expect(asked.status).toBe(1);
    expect(asked.err).toMatch(
      /^Each of the 2 machines gets a place of the license until \S+Z, also if it is released earlier: check their fingerprints\nSign 2 licenses\? /,
    );
    expect([readdirSync(to), await countExports()]).toEqual([[], before]);
    const yes = await make(args, { isTerminal: true, isTyped: true, input: "yes\n" });
    expect(yes.status).toBe(0);
    // What was said before is what the license says.
    const until = /until (\S+), also/.exec(asked.err)?.[1] ?? "";
    const says = /valid until (\S+);/.exec(yes.err)?.[1] ?? "";
    expect(Math.abs(Date.parse(until) - Date.parse(says))).toBeLessThan(60_000);
  });

  test("says of each machine until when its place is held, if a longer license is out for one of them", async () => {
    const key = await issue("--max-machines", "3");
    const to = folder("differing");
    const of = ["--key", key.id, "--without-models", "--to", to];
    const [longer] = (
      await line.json(["bundle", "make", ...of, "--days", "300", "--fingerprint", "workstation-1"])
    ).bundles;
    const alone = ["--key", key.id, "--days", "30", "--fingerprint", "workstation-1", "--without-models"];
    const asked = await make([...alone, "--to", "again.tar"], {
      isTerminal: true,
      isTyped: true,
      input: "no\n",
    });
    expect(asked.err).toStartWith(
      `The machine keeps its place of the license until ${longer.expires_at}, also if it is released earlier: check its fingerprint\nSign 1 license? `,
    );
    const made = await make([...alone, "--to", "again.tar"]);
    expect(made.err).toContain(
      `The machine keeps its place until ${longer.expires_at}, also if it is released`,
    );
    const machines = ["workstation-1", "workstation-2", "workstation-3"].flatMap((each) => [
      "--fingerprint",
      each,
    ]);
    const several = await make([
      "--key",
      key.id,
      "--days",
      "30",
      ...machines,
      "--without-models",
      "--to",
      folder("mixed"),
    ]);
    const [first, second, third] = several.err.split("\n");
    expect(first).toBe(
      "Each of the 3 machines gets or keeps a place of the license, also if it is released earlier: check their fingerprints",
    );
    expect(second).toBe(`  until ${longer.expires_at}: workstation-1`);
    expect(third).toMatch(/^ {2}until \S+Z: workstation-2, workstation-3$/);
  });

  test("makes those for which the license has places, and names the others", async () => {
    const key = await issue("--max-machines", "1");
    const to = folder("full");
    const machines = ["--fingerprint", "workstation-1", "--fingerprint", "workstation-2"];
    const { status, err, out } = await make(["--key", key.id, ...machines, "--to", to]);
    expect([status, out]).toEqual([3, expect.stringContaining("workstation-1")]);
    expect(err).toContain(
      "No bundle for workstation-2: Cannot export license: 1 of 1 places for machines are taken",
    );
    expect(readdirSync(to)).toEqual([expect.stringContaining("workstation-1")]);
    // It is said before anything is signed, and asked about those that get a place alone.
    expect(err).toStartWith(
      "No license for workstation-2: Cannot export license: 1 of 1 places for machines are taken",
    );
    expect(err.split("\n")[1]).toMatch(/^The machine gets a place of the license until /);
    const typed = { isTerminal: true, isTyped: true, input: "yes\n" };
    const none = await make(["--key", key.id, "--fingerprint", "workstation-3", "--to", to], typed);
    expect([none.status, none.out, readdirSync(to).length]).toEqual([1, "", 1]);
    // Without a question, and without the promise of a place.
    expect(none.err).toContain(
      " Cannot export license: 1 of 1 places for machines are taken, the next one until ",
    );
    expect(none.err.split("\n")).toHaveLength(2);
  });
});

test("claviger bundle make says before that the bundle starts the term of its license", async () => {
  const key = await issue("--starts-on-first-use", "--term-days", "30");
  const args = ["--key", key.id, "--without-models", "--to", "term.tar"];
  const no = await make(args, { isTerminal: true, isTyped: true, input: "no\n" });
  expect(no.err).toStartWith(
    "The license waits for its first use. This file starts its term, which then ends at ",
  );
  expect(await line.json(["keys", "show", key.id])).toMatchObject({ started_at: null });
  expect((await make(args)).err).toContain("The term of the license has begun: it ends at ");
});

describe("claviger bundle make refuses, and changes nothing:", () => {
  async function refused(args: readonly string[]) {
    const before = await countExports();
    const { status, out, err } = await make(args);
    expect([out, await countExports()]).toEqual(["", before]);
    return `${status} ${err}`;
  }

  test("a wrong key, model, machine, file or place", async () => {
    const key = await issue();
    const to = ["--to", "never.tar"];
    const of = ["--key", key.id];
    const texts = [
      await refused(["--key", `key_${"0".repeat(32)}`, ...to]),
      await refused([...of, ...to, "--model", "nothing"]),
      await refused([...of, ...to, "--fingerprint", "a", "--fingerprint", "b"]),
      await refused([...of, ...to, "--fingerprint", "a", "--fingerprint", "a"]),
      await refused([...of, ...to, "--fingerprints", "missing.txt"]),
      await refused([...of, ...to, "--fingerprints", line.write("odd.txt", "fine\nnöt\n")]),
      await refused([...of, ...to, "--fingerprints", line.write("blank.txt", "workstation-7 \n")]),
      await refused([...of, ...to, "--fingerprint", " workstation-7"]),
      await refused([...of, ...to, "--fingerprints", line.write("empty.txt", "\n")]),
      await refused([...of, ...to, "--add", "missing.whl"]),
      await refused([...of, "--to", line.write("there.tar", "another file")]),
      await refused([...of, "--to", "no/such/folder.tar"]),
      await refused([...of, "--to", "there.tar/x.tar"]),
      await refused([...of, ...to, "--days", "0"]),
      await refused([...of, ...to, "--days", "400", "--model", "wave", "--without-models"]),
    ];
    expect(texts).toEqual([
      expect.stringContaining("1 claviger: Cannot make bundle: there is no key key_"),
      expect.stringContaining(
        "1 claviger: Cannot make bundle: there is no model that is named nothing; see `claviger models list`",
      ),
      expect.stringContaining("2 claviger: Cannot make bundles: never.tar is no folder"),
      expect.stringContaining("2 claviger: Cannot make bundle: a is given twice"),
      expect.stringContaining("1 claviger: Cannot read missing.txt: there is no such file"),
      expect.stringContaining('odd.txt: line 2, "nöt", must be 1 to 200 printable ASCII characters'),
      expect.stringContaining(
        'blank.txt: line 1, "workstation-7 ", must be 1 to 200 printable ASCII characters ',
      ),
      expect.stringContaining("argument ' workstation-7' is invalid. It must be 1 to 200 printable"),
      expect.stringContaining("empty.txt: it must have 1 to 1000 fingerprints"),
      expect.stringContaining("missing.whl cannot be read: there is no such file"),
      expect.stringContaining("there.tar exists already; move it, or choose another name"),
      expect.stringContaining("no/such: there is no such folder"),
      expect.stringMatching(/^1 claviger: Cannot write into \S+there\.tar: there is no such folder\n$/),
      expect.stringContaining("It must be a whole number from 1 to 3650"),
      expect.stringContaining("'--without-models' cannot be used with option '--model <name>'"),
    ]);
    expect(existsSync(join(line.folder, "never.tar"))).toBe(false);
  });

  test("a license that counts machines without a fingerprint, and a key that was suspended", async () => {
    const counted = await issue("--max-machines", "1");
    expect(await refused(["--key", counted.id, "--to", "never.tar"])).toContain(
      "1 claviger: Cannot export license: the license counts machines and is signed for one of them: fingerprint must be " +
        "8 to 200 printable ASCII characters; give it with --fingerprint\n",
    );
    const two = ["--fingerprint", "workstation-1", "--fingerprint", "short"];
    expect(await refused(["--key", counted.id, ...two, "--to", folder("short")])).toContain(
      'fingerprint must be 8 to 200 printable ASCII characters, not "short"; give it with --fingerprint\n',
    );
    const key = await issue();
    await line.json(["keys", "suspend", key.id]);
    // Also before the models are looked at.
    expect(await refused(["--key", key.id, "--to", "never.tar", "--model", "nothing"])).toContain(
      "1 claviger: Cannot export license: the key is suspended; `claviger keys resume ",
    );
    const bounded = await issue("--max-offline-days", "14");
    expect(await refused(["--key", bounded.id, "--to", "never.tar", "--days", "15"])).toContain(
      "1 claviger: Cannot export license: the license is signed for at most 14 days",
    );
  });

  test("a model whose bytes are damaged", async () => {
    await host("damaged", "good bytes");
    const { checksum } = (await line.json(["models", "list"])).find(
      ({ name }: { name: string }) => name === "damaged",
    );
    const sha256 = checksum.slice("sha256:".length);
    writeFileSync(join(line.dataDir, "models", sha256.slice(0, 2), sha256), "bad  bytes");
    const key = await issue();
    expect(await refused(["--key", key.id, "--model", "damaged", "--to", "never.tar"])).toContain(
      "1 claviger: Cannot make bundle: the file of damaged 1.0 is damaged on this host; see `claviger models verify`",
    );
    await line.json(["models", "remove", "damaged", "--yes"]);
  });
});
