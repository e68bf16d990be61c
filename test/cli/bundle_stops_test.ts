/** `claviger bundle make` when something ends it after a license was signed: it says what was made, and what is left to make. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCommandLine, createIssuer } from "./command_line.ts";
import { useServing } from "./use_command_line.ts";

const { line } = useServing();
const issue = createIssuer(line);
const DAY = new Date().toISOString().slice(0, 10);
const MACHINES = ["workstation-1", "workstation-2", "workstation-3"];
const MODEL = ["--type", "SvcLDA", "--n-features", "4", "--n-classes", "2", "--paradigm", "p300"];

const fingerprintsOf = (machines: readonly string[]) => machines.flatMap((each) => ["--fingerprint", each]);

/** Starts with a key whose license has a place for each machine, and an empty folder. */
async function begin(name: string) {
  const key = await issue("--organization", "Engines", "--max-machines", "30");
  const to = join(line.folder, name);
  mkdirSync(to);
  const make = ["bundle", "make", "--key", key.id, "--days", "30", "--to", to];
  return {
    key,
    to,
    pathOf: (machine: string) => join(to, `Engines-${machine}-${DAY}.tar`),
    args: [...make, "--without-models", ...fingerprintsOf(MACHINES)],
    make,
    async countSigned(): Promise<number> {
      return (await line.json(["licenses", "outstanding", "--key", key.id, "--limit", "1000"])).length;
    },
  };
}

/** What the command says after the file of the first machine, if the license of the second one was signed. */
const REST = [
  "No bundle for 2 machines. To make the rest, write these lines into a file for --fingerprints:",
  "workstation-2",
  "workstation-3",
].join("\n");

test("a file that cannot be written: names what was made and signed, and the rest can be made from what it says", async () => {
  const { args, make, to, pathOf, countSigned } = await begin("unwritable");
  // A folder is where the second file is to be.
  const onOut = () => mkdirSync(pathOf("workstation-2"), { recursive: true });
  const { status, out, err } = await line.here(args, { onOut });
  expect([status, out]).toEqual([
    3,
    expect.stringMatching(/^Wrote .*workstation-1-\S+ \(.*\): a license, .*\n$/),
  ]);
  expect(err).toContain(`${REST}\n`);
  expect(err.trimEnd().split("\n").at(-1)).toMatch(
    /^claviger: Cannot write \S+workstation-2-\S+: .*; 1 of 3 bundles are made; the license for workstation-2 is signed and noted all the same$/,
  );
  expect(await countSigned()).toBe(2);
  rmSync(pathOf("workstation-2"), { recursive: true });
  const rest = line.write("rest.txt", REST.split("\n").slice(1).join("\n"));
  const again = await line.here([...make, "--without-models", "--fingerprints", rest]);
  expect([again.status, readdirSync(to).length]).toEqual([0, 3]);
});

test("the same with --json: one document, with what was signed and has no file", async () => {
  const { make, pathOf, countSigned } = await begin("document");
  const machines = Array.from({ length: 20 }, (_, index) => `workstation-${index + 1}`);
  // When the first file is there, a folder gets the place of the last one.
  const watching = setInterval(() => {
    try {
      readFileSync(pathOf("workstation-1"));
      mkdirSync(pathOf("workstation-20"), { recursive: true });
    } catch {
      // Not yet.
    }
  }, 1);
  const args = [...make, "--without-models", ...fingerprintsOf(machines), "--json"];
  const { status, out, err } = await line.here(args);
  clearInterval(watching);
  expect([status, err]).toEqual([3, expect.stringContaining("; 19 of 20 bundles are made; ")]);
  const { bundles, refused, unwritten, missing } = JSON.parse(out);
  expect([bundles.length, refused, missing]).toEqual([19, [], ["workstation-20"]]);
  expect(unwritten).toEqual([
    {
      fingerprint: "workstation-20",
      kid: expect.any(String),
      jti: expect.any(String),
      expires_at: bundles[0].expires_at,
      machine_id: expect.stringMatching(/^mch_/),
      warning: expect.stringContaining("The machine keeps its place until "),
      term_ends_at: null,
    },
  ]);
  expect(await countSigned()).toBe(20);
});

test("a signal: signs nothing more, keeps the status of a signal, and names the rest", async () => {
  const { args, to, countSigned } = await begin("signal");
  const stop = Promise.withResolvers<string>();
  const { status, err } = await line.here(args, {
    signal: stop.promise,
    onOut: () => stop.resolve("SIGINT"),
  });
  expect(status).toBe(1);
  const signed = await countSigned();
  expect(err.trimEnd().split("\n").at(-1)).toStartWith(
    "claviger: Stopped by SIGINT: bundles that were written stay, and so do the places of machines whose licenses were signed; 1 of 3 bundles are made",
  );
  expect(err).toContain("workstation-2\nworkstation-3\n");
  expect([readdirSync(to).length, signed <= 2]).toEqual([1, true]);
  expect(err.includes("is signed and noted all the same")).toBe(signed === 2);
});

test("a model that changes meanwhile", async () => {
  const file = line.write("wave.onnx", "the bytes of wave");
  const add = ["models", "add", "--name", "wave", "--version", "1.0", ...MODEL, "--requires-license", "free"];
  const env = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org" };
  const { checksum } = await line.json([...add, "--file", file], { env });
  const sha256 = checksum.slice("sha256:".length);
  const stored = join(line.dataDir, "models", sha256.slice(0, 2), sha256);
  const { make, countSigned } = await begin("changing");
  const { status, err } = await line.here([...make, ...fingerprintsOf(MACHINES)], {
    onOut: () => writeFileSync(stored, "the bytes of wAve"),
  });
  expect([status, err]).toEqual([3, expect.stringContaining(`${REST}\n`)]);
  expect(err).toContain(
    "claviger: Cannot make bundle: the file of wave 1.0 is damaged on this host; see `claviger models verify`; 1 of 3 bundles are made; ",
  );
  expect(await countSigned()).toBe(2);
  writeFileSync(stored, "the bytes of wave");
  const gone = await begin("gone");
  const ended = await line.here([...gone.make, ...fingerprintsOf(MACHINES)], { onOut: () => rmSync(stored) });
  expect(ended.status).toBe(3);
  expect(ended.err).toContain(
    "claviger: Cannot make bundle: one of its files cannot be read: there is no such file; 1 of 3 bundles are made; ",
  );
  await line.json(["models", "remove", "wave", "--yes"]);
});

test("a lone bundle: the status says that a license was signed", async () => {
  const { key, to } = await begin("alone");
  const file = join(line.folder, "package.whl");
  writeFileSync(file, new Uint8Array(50_000_000));
  const path = join(to, "alone.tar");
  // While the file is written under another name, a folder gets its own.
  const watching = setInterval(() => {
    if (readdirSync(to).length > 0) mkdirSync(path, { recursive: true });
  }, 1);
  const args = [
    "bundle",
    "make",
    "--key",
    key.id,
    "--fingerprint",
    "workstation-1",
    "--add",
    file,
    "--to",
    path,
  ];
  const { status, out, err } = await line.here([...args, "--json"]);
  clearInterval(watching);
  const { bundles, unwritten, missing } = JSON.parse(out);
  expect([status, bundles, unwritten.length, missing]).toEqual([3, [], 1, ["workstation-1"]]);
  expect(err).toMatch(/; the license for workstation-1 is signed and noted all the same\n$/);
});

describe("a database that goes away", () => {
  test("names the license that may have been signed, and how to find out", async () => {
    using own = createCommandLine({ prepared: true });
    await (await own.serve()).stop();
    const key = await createIssuer(own)("--organization", "Engines", "--max-machines", "3");
    const to = join(own.folder, "to");
    mkdirSync(to);
    const args = [
      "bundle",
      "make",
      "--key",
      key.id,
      "--without-models",
      "--to",
      to,
      ...fingerprintsOf(MACHINES),
    ];
    const { status, err } = await own.here(args, {
      onOut() {
        const pid = readFileSync(join(own.dataDir, "postgres", "postmaster.pid"), "utf8").split("\n")[0];
        process.kill(Number(pid), "SIGQUIT");
      },
    });
    expect([status, readdirSync(to).length]).toEqual([3, 1]);
    expect(err).toContain(`${REST}\n`);
    expect(err.trimEnd().split("\n").at(-1)).toEndWith(
      `; 1 of 3 bundles are made; whether a license for workstation-2 was signed is not known: see \`claviger licenses outstanding --key ${key.id}\``,
    );
  });
});
