/**
 * Sixty days of a machine that never has a network, in both languages: bundles go in, reports come out, as files. The module
 * runs in a network namespace without a route, the service outside, and both have a clock that the proof moves. Reports
 * are late, lost, doubled and in the wrong order, bundles are old, altered and for others, clocks are wrong, and the module is
 * killed while it records, reports and opens bundles. At the end the service has counted each recorded use exactly once.
 */
import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { createRandom } from "../support/random.ts";
import { SOURCE, spawnService, toServeCommand } from "../support/service_process.ts";
import { createCommandLine } from "./command_line.ts";
import { CLOSED_WHY } from "./license_reasons.ts";
import { LANGUAGES, type Language, MODULES } from "./sdk_languages.ts";
import { hasCryptography } from "./sdk_python.ts";

// Takes over a minute.

const DAY_MS = 86_400_000;
const DAYS = 60;
const LIMIT = 900;
const CLOCK = join(import.meta.dir, "../support/moved_clock.ts");
const PATH = process.env.PATH ?? "";
/** The end of a journal that a report has taken. */
const SEAL = '\n{"sealed":true}\n';
const { clock_behind: BEHIND = "", expired: EXPIRED = "" } = CLOSED_WHY;
/** Noon of the tenth day of the next month: then the days are in three months. */
const realDay = new Date();
const START_MS = Date.UTC(realDay.getUTCFullYear(), realDay.getUTCMonth() + 1, 10, 12);
const beganMs = Date.now();

const UNSHARE = process.getuid?.() === 0 ? ["unshare", "-n"] : ["unshare", "-rn"];
const canUnshare =
  Bun.which("unshare") !== null && Bun.spawnSync([...UNSHARE, "true"], { stderr: "ignore" }).exitCode === 0;
if (!canUnshare)
  console.warn("Skipped the closed network: the kernel allows no network namespace for this user");

/** The program on the machine: says what it may do, then records each use that its arguments name as TYPE:MODEL. */
const PROGRAMS: Readonly<Record<string, string>> = {
  Python: `
import json, os, sys
sys.path.insert(0, ${JSON.stringify(MODULES)})
from claviger_client import Client, Refused
client = Client(state_file=os.environ["LICENSE_STATE"], keys=os.environ["LICENSE_KEYS"], audience="svc")
why = ""
try:
    client.claims()
except Refused as refused:
    why = str(refused)
print(json.dumps({"works": client.may_work(), "features": client.features(), "why": why}), flush=True)
for use in sys.argv[1:]:
    kind, model = use.split(":")
    print(client.record(kind, model_name=model), flush=True)
`,
  "TypeScript on Bun": `
import { writeSync } from "node:fs";
import { Client } from ${JSON.stringify(join(MODULES, "claviger_client.ts"))};
const { LICENSE_STATE: stateFile, LICENSE_KEYS: keys } = process.env;
const client = new Client({ stateFile, keys, audience: "svc" });
let why = "";
try { client.claims(); } catch (error) { why = error.message; }
writeSync(1, JSON.stringify({ works: client.mayWork(), features: client.features(), why }) + "\\n");
for (const use of process.argv.slice(2)) {
  const [type, modelName] = use.split(":");
  writeSync(1, client.record(type, { modelName }) + "\\n");
}
`,
};

/** Moves the clock of a Python that has this folder in its path. */
const SITE = `
import json, os, time
moved, real = json.loads(os.environ["TEST_CLOCK_OFFSETS"])["wallMs"] / 1000, time.time
time.time = lambda: real() + moved
`;

/** Whether the service outside can be reached, and what the kernel knows of networks, from inside. */
const LOOK = `
const { readFileSync } = require("node:fs");
const reached = await fetch(process.argv[2]).then(() => true, () => false);
const lines = (file) => readFileSync(file, "utf8").trim().split("\\n");
const names = lines("/proc/net/dev").slice(2).map((line) => line.split(":")[0].trim());
console.log(JSON.stringify({ reached, names, routes: lines("/proc/net/route").length - 1 }));
`;

interface Use {
  readonly key: string;
  readonly type: string;
  readonly model: string;
  /** By the clock of the machine; a report moves a later day to its own. */
  day: string;
}

interface Row {
  readonly day: string;
  readonly event_type: string;
  readonly model_name: string;
  readonly count: number;
}

const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);
const digest = (bytes: string | Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** The claims of a signed text. */
// biome-ignore lint/suspicious/noExplicitAny: tests read documents of every shape.
function claimsOf(text: string): any {
  return JSON.parse(Buffer.from(text.split(".")[1] ?? "", "base64url").toString());
}

async function finish(child: Bun.Subprocess<"ignore", "pipe", "pipe">) {
  const [status, out, err] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()]);
  return { status, out, err };
}

/** Adds to the count of a name. */
function add(counts: Map<string, number>, name: string, more: number): void {
  counts.set(name, (counts.get(name) ?? 0) + more);
}

const sorted = (counts: Map<string, number>) => Object.fromEntries([...counts].sort());

/** The service with its commands, each a process with the clock of the day. */
async function startVendor(cleanups: AsyncDisposableStack) {
  const line = createCommandLine({ prepared: true });
  cleanups.defer(() => line.remove());
  const env = { PATH, CLAVIGER_PUBLIC_URL: "https://licenses.example.org", CLAVIGER_STOP_GRACE: "0" };
  let clock = { wallMs: START_MS - beganMs, monotonicMs: 0 };
  const command = toServeCommand(SOURCE, ["--data-dir", line.dataDir]);
  const service = spawnService(command, { cwd: line.folder, env, dataDir: line.dataDir, clock });
  cleanups.defer(() => service.end());
  await service.untilHealthy();
  const run = (...args: readonly string[]) =>
    finish(
      Bun.spawn([...SOURCE, ...args, "--data-dir", line.dataDir, "--env-file", "/dev/null"], {
        cwd: line.folder,
        env: { ...env, BUN_OPTIONS: `--preload ${CLOCK}`, TEST_CLOCK_OFFSETS: JSON.stringify(clock) },
        stdio: ["ignore", "pipe", "pipe"],
      }),
    );
  // biome-ignore lint/suspicious/noExplicitAny: tests read documents of every shape.
  const json = async (...args: readonly string[]): Promise<any> => {
    const { status, out, err } = await run(...args, "--json");
    if (status !== 0) throw new Error(`${args.join(" ")}: ${err}`);
    return JSON.parse(out);
  };
  return {
    url: service.url,
    folder: line.folder,
    run,
    json,
    async setDay(day: number) {
      clock = { wallMs: START_MS + day * DAY_MS - beganMs, monotonicMs: day * DAY_MS };
      await service.moveClock(clock);
    },
  };
}

/** The machine in the closed network: its folder, its clock, and its module, which can be killed. */
function createMachine(language: Language, folder: string, random: ReturnType<typeof createRandom>) {
  const home = mkdtempSync(join(folder, "machine-"));
  const [models, files, programs] = ["models", "files", "programs"].map((name) => join(home, name));
  if (models === undefined || files === undefined || programs === undefined) throw new Error("No folders");
  for (const path of [models, files, programs]) mkdirSync(path);
  const state = join(home, "license.json");
  const keys = join(home, "keys.json");
  const isPython = language.name === "Python";
  const program = join(programs, isPython ? "program.py" : "program.ts");
  writeFileSync(program, PROGRAMS[language.name] ?? "");
  if (isPython) writeFileSync(join(programs, "sitecustomize.py"), SITE);
  let offsetMs = 0;
  const typicalMs = new Map<string, number>();
  const nowMs = () => Date.now() + offsetMs;

  function start(args: readonly string[]) {
    // Bun takes no options from the environment for its command `run`.
    const command = isPython ? language.command : [process.execPath];
    return Bun.spawn([...UNSHARE, ...command, ...args], {
      env: {
        ...{ PATH, LICENSE_STATE: state, LICENSE_KEYS: keys, LICENSE_AUDIENCE: "svc" },
        ...(isPython ? { PYTHONPATH: programs } : { BUN_OPTIONS: `--preload ${CLOCK}` }),
        TEST_CLOCK_OFFSETS: JSON.stringify({ wallMs: offsetMs, monotonicMs: 0 }),
      },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 100_000,
    });
  }
  /** The real time of a file that a killed process left becomes that of the machine. */
  function ageFiles(): void {
    const seconds = nowMs() / 1_000;
    for (const name of readdirSync(home))
      if (name.endsWith(".lock")) utimesSync(join(home, name), seconds, seconds);
  }

  return {
    home,
    models,
    files,
    keys,
    state,
    program,
    start,
    ageFiles,
    nowMs,
    setClock(ms: number) {
      offsetMs = ms - beganMs;
    },
    /** Runs a command of the module to its end. */
    async run(...args: readonly string[]) {
      const began = performance.now();
      const ended = await finish(start([language.module, ...args]));
      typicalMs.set(args[0] ?? "", performance.now() - began);
      return ended;
    },
    /** Kills a command at a random moment; returns whether it was still at work. */
    async kill(...args: readonly string[]) {
      const child = start([language.module, ...args]);
      // Most of the time is the start of the interpreter, so every other kill waits for a file to change.
      const most = typicalMs.get(args[0] ?? "") ?? 200;
      const watched = `${state}.${random.pick(["journal.head", "journal.head", "journal", "reports", "license"])}`;
      const look = () => statSync(watched, { throwIfNoEntry: false })?.ctimeMs;
      const before = look();
      if (random.between(0, 1) === 1)
        while (look() === before && child.exitCode === null) await new Promise((next) => setImmediate(next));
      else await Bun.sleep(random.between(Math.floor(most * 0.4), Math.ceil(most * 1.05)));
      child.kill("SIGKILL");
      await child.exited;
      ageFiles();
      return child.signalCode === "SIGKILL";
    },
    read: (kind: string) => readFileSync(`${state}.${kind}`, "utf8"),
    /** What is in the folder of the machine: each path with its digest. */
    list(): Record<string, string> {
      const paths = readdirSync(home, { recursive: true, encoding: "utf8" }).sort();
      const whole = paths.filter((path) => !path.includes("programs") && statSync(join(home, path)).isFile());
      return Object.fromEntries(whole.map((path) => [path, digest(readFileSync(join(home, path)))]));
    },
  };
}

async function walk(language: Language): Promise<void> {
  await using cleanups = new AsyncDisposableStack();
  const seed = Date.now();
  const random = createRandom(seed);
  const vendor = await startVendor(cleanups);
  const machine = createMachine(language, vendor.folder, random);
  const stick = join(vendor.folder, "stick");
  mkdirSync(stick);
  const figures = {
    seed,
    uses: 0,
    killed: { record: 0, report: 0, open: 0 },
    undecided: 0,
    refusedBundles: 0,
    hoursOfLock: 0,
  };

  // Given a service with two models, and a customer with a quota.
  const MODEL = ["--type", "SvcLDA", "--n-features", "4", "--n-classes", "2", "--paradigm", "p300"];
  const contents = new Map<string, string>();
  const fill = (name: string, bytes: number) => {
    const content = Buffer.alloc(bytes, `${name} ${random.next()} `);
    writeFileSync(join(vendor.folder, name), content);
    contents.set(name, digest(content));
  };
  const MODEL_NAMES = ["speller", "wave"];
  for (const name of MODEL_NAMES) {
    fill(`${name}-1.0.onnx`, 300_000);
    const named = ["--name", name, "--version", "1.0", "--requires-license", "free"];
    await vendor.json("models", "add", ...named, ...MODEL, "--file", `${name}-1.0.onnx`);
  }
  const limits = ["--monthly-limit", String(LIMIT), "--max-machines", "2"];
  const key = await vendor.json(
    "keys",
    "issue",
    "--email",
    "ada@example.org",
    "--tier",
    "research",
    ...limits,
  );
  writeFileSync(machine.keys, (await vendor.run("licenses", "public-keys", "--json")).out);

  // Given a machine that reaches nobody, and that tells its fingerprint.
  writeFileSync(join(vendor.folder, "look.ts"), LOOK);
  const look = [process.execPath, "run", join(vendor.folder, "look.ts"), `${vendor.url}/api/health`];
  const seen = await finish(Bun.spawn([...UNSHARE, ...look], { stdio: ["ignore", "pipe", "pipe"] }));
  expect(JSON.parse(seen.out)).toEqual({ reached: false, names: ["lo"], routes: 0 });
  const open = await finish(Bun.spawn(look, { stdio: ["ignore", "pipe", "pipe"] }));
  expect(JSON.parse(open.out).reached).toBe(true);
  machine.setClock(START_MS);
  const status = await machine.run("status");
  expect(status.status).toBe(1);
  expect(status.out).toStartWith("may not work\n");
  const fingerprint = /^fingerprint ([0-9a-f]{64})$/m.exec(status.out)?.[1] ?? "";
  expect(fingerprint).not.toBe("");

  /** Makes a bundle with the two models and a program, whose bytes differ from bundle to bundle. */
  async function makeBundle(name: string, days: number, whose = fingerprint): Promise<string> {
    const core = `core-${name}.whl`;
    fill(core, 2_000_000);
    const to = join(stick, `${name}.tar`);
    const args = ["--key", key.id, "--days", String(days), "--fingerprint", whose, "--add", core, "--to", to];
    await vendor.json("bundle", "make", ...args);
    return to;
  }
  const openBundle = (path: string) => machine.run("open-bundle", path, machine.models, machine.files);
  async function refuseBundle(path: string, why: string): Promise<void> {
    const before = machine.list();
    expect(await openBundle(path)).toEqual({ status: 1, out: "", err: `refused: ${why}\n` });
    expect(machine.list()).toEqual(before);
    figures.refusedBundles++;
  }
  /** Refuses the bundle with one altered byte at random places. */
  async function refuseAltered(path: string): Promise<void> {
    const bytes = readFileSync(path);
    const altered = join(stick, "altered.tar");
    for (let times = 0; times < 4; times++) {
      const at = random.between(0, bytes.length - 1);
      const wrong = Buffer.from(bytes);
      wrong[at] = (wrong[at] ?? 0) ^ (1 << random.between(0, 7));
      writeFileSync(altered, wrong);
      const before = machine.list();
      const { status, err } = await openBundle(altered);
      expect({ at, status, err }).toEqual({ at, status: 1, err: expect.stringMatching(/^refused: .+\n$/) });
      expect(machine.list()).toEqual(before);
      figures.refusedBundles++;
    }
  }
  /** Opens a bundle after it was killed several times; what is there after each kill is whole. */
  async function openAndKill(path: string): Promise<void> {
    const licenseFile = `${machine.state}.license`;
    const readLicense = () => (existsSync(licenseFile) ? readFileSync(licenseFile, "utf8").trim() : "");
    const untarred = await finish(
      Bun.spawn(["tar", "-xOf", path, "license.jws"], { stdio: ["ignore", "pipe", "pipe"] }),
    );
    const known = [readLicense(), untarred.out.trim()];
    const checkFiles = () => {
      for (const folder of [machine.models, machine.files])
        for (const name of readdirSync(folder).filter((name) => contents.has(name)))
          expect({ name, digest: digest(readFileSync(join(folder, name))) }).toEqual({
            ...{ name, digest: contents.get(name) ?? "" },
          });
    };
    for (let times = 0; times < 16; times++) {
      if (await machine.kill("open-bundle", path, machine.models, machine.files)) figures.killed.open++;
      expect(known).toContain(readLicense());
      checkFiles();
    }
    expect(await openBundle(path)).toMatchObject({ status: 0, err: "" });
    expect(readLicense()).toBe(untarred.out.trim());
    checkFiles();
    for (const name of MODEL_NAMES) expect(readdirSync(machine.models)).toContain(`${name}-1.0.onnx`);
  }

  let today = "";
  let [works, why] = [true, ""];
  const waiting: Use[] = [];
  const reported: Use[] = [];
  /**
   * What reports have taken and not dropped. After a kill there are two files, and the first may have what is in the second,
   * and begin with what the last report holds.
   */
  const readTaken = (): string[] => {
    const texts = ["journal.old", "journal.new"].map((kind) =>
      existsSync(`${machine.state}.${kind}`) ? (machine.read(kind).split(SEAL)[0] ?? "") : "",
    );
    const [first = "", second = ""] = texts;
    const { cut } = existsSync(`${machine.state}.journal.head`)
      ? JSON.parse(machine.read("journal.head"))
      : {};
    const whole = existsSync(`${machine.state}.journal.old`)
      ? readFileSync(`${machine.state}.journal.old`)
      : "";
    const isReported = cut && digest(whole.slice(0, cut.bytes)) === cut.sha256;
    const rest = isReported ? Buffer.from(first).subarray(cut.bytes).toString() : first;
    return [rest, rest.endsWith(second) ? "" : second];
  };
  /** The uses that wait: whole lines of the journal, after those of a journal that a report has taken away. */
  const readJournal = () =>
    readTaken()
      .concat(existsSync(`${machine.state}.journal`) ? machine.read("journal") : "")
      .flatMap((text) => text.split("\n").slice(0, -1))
      .flatMap((text) => {
        try {
          const use = JSON.parse(text);
          return use.idempotency_key === undefined ? [] : [use];
        } catch {
          return []; // what a killed process wrote in part, or the mark at the end of a taken journal
        }
      });
  const pickUse = () => `${random.between(1, 10) === 1 ? "error" : "inference"}:${random.pick(MODEL_NAMES)}`;

  /** Starts the program, which records some uses. With `kill` it is killed after so many of them. */
  async function use(count: number, expected: { works: boolean; why?: string; killAfter?: number }) {
    const { works, why = "", killAfter } = expected;
    const wanted = Array.from({ length: count }, pickUse);
    const child = machine.start([machine.program, ...wanted]);
    const err = child.stderr.text();
    let out = "";
    const decoder = new TextDecoder();
    for await (const part of child.stdout) {
      out += decoder.decode(part, { stream: true });
      if (killAfter !== undefined && out.split("\n").length > killAfter + 1 && !child.killed) {
        if (random.between(0, 1) === 1) await Bun.sleep(random.between(0, 2));
        child.kill("SIGKILL");
      }
    }
    await child.exited;
    machine.ageFiles();
    const [head = "{}", ...recorded] = out.split("\n").slice(0, -1);
    const { features, ...said } = JSON.parse(head);
    expect({ language: language.name, day: today, ...said }).toEqual({
      ...{ language: language.name, day: today, works, why },
    });
    expect(features.includes("streaming")).toBe(works);
    const journal = readJournal();
    const day = dayOf(Math.max(machine.nowMs(), claimsOf(machine.read("license")).iat * 1_000));
    recorded.forEach((key, at) => {
      const [type = "", model = ""] = (wanted[at] ?? "").split(":");
      expect(journal).toContainEqual(expect.objectContaining({ idempotency_key: key, event_type: type }));
      waiting.push({ key, type, model, day });
    });
    if (child.signalCode === "SIGKILL") figures.killed.record++;
    else
      expect({ status: child.exitCode, err: await err, recorded: recorded.length }).toEqual({
        ...{ status: 0, err: "", recorded: count },
      });
    // A use whose answer the kill took away counts if its line is whole.
    const keys = new Set(waiting.map(({ key }) => key));
    const more = journal.filter(({ idempotency_key: key }) => !keys.has(key));
    expect(more.length).toBeLessThanOrEqual(child.signalCode === "SIGKILL" ? 1 : 0);
    for (const { idempotency_key: key, event_type: type, model_name: model } of more) {
      waiting.push({ key, type, model, day });
      figures.undecided++;
    }
  }

  /**
   * A process that is killed after it has made its lock, and before its name is in it, blocks reports for an hour:
   * nobody can tell that it has ended.
   */
  function waitForLock(): void {
    const lock = `${machine.state}.journal.lock`;
    if (!existsSync(lock) || statSync(lock).size > 0) return;
    const seconds = machine.nowMs() / 1_000 - 3_660;
    utimesSync(lock, seconds, seconds);
    figures.hoursOfLock++;
  }

  let [written, copies] = [0, 0];
  const rows: Row[] = [];
  const reportPath = (number: number) => join(stick, `${number}.report`);
  const texts = new Map<number, string>();
  /** Writes what waits, after the command was killed several times; returns the numbers of the new reports. */
  async function report(...more: readonly string[]): Promise<number[]> {
    const to = () => join(stick, `${++copies}.copy`);
    for (let times = 0; times < 16; times++) {
      if (readJournal().length === 0) await use(random.between(1, 3), { works, why });
      if (await machine.kill("report", to(), ...more)) figures.killed.report++;
      waitForLock();
    }
    // Whatever was killed, the next report holds all.
    const ended = await machine.run("report", to(), ...more);
    expect({ day: today, ...ended, out: "" }).toMatchObject({ day: today, status: 0 });
    expect(readJournal()).toEqual([]);
    expect((await machine.run("report", to(), ...more)).out).toBe("");
    const { number } = JSON.parse(machine.read("journal.head"));
    const numbers: number[] = [];
    while (written < number) {
      numbers.push(++written);
      expect(await machine.run("report-again", String(written), reportPath(written))).toEqual({
        ...{ status: 0, out: "", err: "" },
      });
      const text = readFileSync(reportPath(written), "utf8");
      texts.set(written, text);
      const { days, events, made_at } = claimsOf(text);
      rows.push(...days);
      const counted = days.reduce((sum: number, { count }: Row) => sum + count, 0);
      const taken = waiting.splice(0, counted);
      for (const each of taken) if (each.day > made_at.slice(0, 10)) each.day = made_at.slice(0, 10);
      if (events !== undefined)
        expect(events.map((event: { idempotency_key: string }) => event.idempotency_key)).toEqual(
          taken.map(({ key }) => key),
        );
      reported.push(...taken);
    }
    expect(waiting).toEqual([]);
    return numbers;
  }

  const order: number[] = [];
  /** Imports reports; returns the outcome of each that was not refused, and the sentences. */
  async function importReports(numbers: readonly number[]) {
    const { status, out, err } = await vendor.run("usage", "import", ...numbers.map(reportPath), "--json");
    const results = out === "" ? [] : JSON.parse(out).reports;
    const outcomes = results.map(({ file, outcome }: { file: string; outcome: string }) => {
      const number = Number(/(\d+)\.report$/.exec(file)?.[1]);
      if (outcome === "imported") order.push(number);
      return `${number} ${outcome}`;
    });
    return { status, outcomes, err };
  }
  const all = (numbers: readonly number[], outcome: string) => ({
    ...{ status: 0, err: "", outcomes: numbers.map((number) => `${number} ${outcome}`) },
  });

  let [second, third, fourth]: [number[], number[], number[]] = [[], [], []];
  const stop = (sentence: string) => ([works, why] = [false, sentence]);
  const goOn = () => ([works, why] = [true, ""]);
  /** What happens in the morning of a day. */
  const mornings: Record<number, () => Promise<unknown>> = {
    async 0() {
      const other = await makeBundle("other", 30, "workstation-8");
      await refuseBundle(other, "the license is for another machine");
      const first = await makeBundle("a", 14);
      await refuseAltered(first);
      await openAndKill(first);
      await refuseBundle(other, "the license is for another machine");
    },
    async 10() {
      const next = await makeBundle("b", 13);
      await refuseAltered(next);
      await openAndKill(next);
      expect(await openBundle(next)).toMatchObject({ status: 0, err: "" });
      await refuseBundle(join(stick, "a.tar"), "this bundle is older than the license that is there");
    },
    // The next bundle comes four days late.
    23: async () => stop(EXPIRED),
    async 27() {
      await openAndKill(await makeBundle("c", 60));
      goOn();
    },
    // The quota of this month is exceeded.
    30: () => use(LIMIT, { works }),
    33: async () => machine.setClock(START_MS + 73 * DAY_MS),
    async 34() {
      await use(2, { works: false, why: BEHIND });
      await refuseBundle(join(stick, "c.tar"), BEHIND);
      await openAndKill(await makeBundle("d", 20));
      await refuseBundle(join(stick, "c.tar"), "this bundle is older than the license that is there");
    },
    async 44() {
      machine.setClock(START_MS + 41 * DAY_MS);
      stop(BEHIND);
    },
    45: async () => goOn(),
    52: async () => openAndKill(await makeBundle("e", 15)),
  };
  /** What the administrator and the carrier do in the evening. */
  const evenings: Record<number, () => Promise<unknown>> = {
    async 9() {
      const numbers = await report();
      expect(await importReports(numbers)).toEqual(all(numbers, "imported"));
      expect(await importReports(numbers)).toEqual(all(numbers, "known"));
    },
    // This report lies in a drawer until day 39.
    async 19() {
      second = await report();
    },
    // This one is lost.
    async 29() {
      third = await report();
      for (const number of third) rmSync(reportPath(number));
    },
    async 39() {
      fourth = await report();
      const late = `report ${second[0]} of this machine is missing`;
      expect(await importReports(fourth)).toMatchObject({ status: 1, err: expect.stringContaining(late) });
      const lost = `report ${third[0]} of this machine is missing`;
      expect(await importReports([...fourth, ...second])).toMatchObject({
        ...{ status: 3, outcomes: all(second, "imported").outcomes, err: expect.stringContaining(lost) },
      });
      for (const number of third) {
        await machine.run("report-again", String(number), reportPath(number));
        expect(readFileSync(reportPath(number), "utf8")).toBe(texts.get(number) ?? "");
      }
      const [shuffled, inOrder] = [
        [...fourth, ...third],
        [...third, ...fourth],
      ];
      const monthsOf = async (...more: readonly string[]) =>
        (await vendor.json("usage", "import", ...shuffled.map(reportPath), ...more)).reports.map(
          ({ number, months }: { number: number; months: object }) => ({ number, months }),
        );
      const foreseen = await monthsOf("--dry-run");
      expect(await importReports(shuffled)).toEqual(all(inOrder, "imported"));
      expect(await monthsOf()).toEqual(foreseen);
    },
    async 49() {
      const numbers = await report("--events");
      expect(await importReports(numbers)).toEqual(all(numbers, "imported"));
    },
    async 59() {
      const numbers = await report();
      expect(await importReports([...numbers, ...fourth])).toMatchObject({ status: 0 });
    },
  };

  // When sixty days pass.
  for (let day = 0; day < DAYS; day++) {
    today = `day ${day}`;
    await vendor.setDay(day);
    machine.setClock(START_MS + day * DAY_MS);
    await mornings[day]?.();
    for (let times = random.between(1, 2); times > 0; times--)
      await use(12, { works, why, killAfter: random.between(0, 10) });
    await use(random.between(1, 6), { works, why });
    if (day % 10 === 5) {
      const [said, features] = [await machine.run("status"), await machine.run("features")];
      expect([said.status, features.status]).toEqual(works ? [0, 0] : [1, 1]);
    }
    await evenings[day]?.();
  }

  // Then each use is in the reports once, on its day.
  const [wanted, inReports] = [new Map<string, number>(), new Map<string, number>()];
  for (const { day, type, model } of reported) add(wanted, `${day} ${type} ${model}`, 1);
  for (const { day, event_type, model_name, count } of rows)
    add(inReports, `${day} ${event_type} ${model_name}`, count);
  expect(sorted(inReports)).toEqual(sorted(wanted));
  figures.uses = reported.length;

  // And each report was imported once, in its order.
  const numbers = Array.from({ length: written }, (_, at) => at + 1);
  expect(order).toEqual(numbers);
  expect(await importReports(numbers)).toEqual(all(numbers, "known"));
  const audited = await vendor.json("audit", "--limit", "1000");
  const imports = audited.filter(({ action }: { action: string }) => action === "usage.report");
  expect(imports.length).toBe(written);

  // And the service has counted the units of each day: in the month within the limit, the others beyond it.
  const units = new Map<string, number>();
  for (const { day, type } of reported) if (type === "inference") add(units, day, 1);
  const byMonth = new Map<string, number>();
  for (const [day, count] of units) add(byMonth, day.slice(0, 7), count);
  const months: Record<string, object> = {};
  for (const [month, count] of byMonth) {
    const { used, over, imported, days } = await vendor.json("keys", "usage", key.id, "--month", month);
    const expected = { used: Math.min(count, LIMIT), over: Math.max(0, count - LIMIT) };
    expect({ month, used, over, imported }).toEqual({ month, ...expected, imported: 0 });
    expect(days.reduce((sum: number, row: { used: number }) => sum + row.used, 0)).toBe(used);
    months[month] = { used, over };
    for (const { day, used } of days) {
      if (over === 0) expect({ day, used }).toEqual({ day, used: units.get(day) ?? 0 });
      else expect(used).toBeLessThanOrEqual(units.get(day) ?? 0);
    }
  }
  expect(Object.values(months).filter((month) => (month as { over: number }).over > 0).length).toBe(1);
  for (const [what, count] of Object.entries(figures.killed))
    expect({ what, count }).not.toEqual({ what, count: 0 });
  // Copies of added files that a killed process left under names of their own.
  const left = Object.keys(machine.list()).filter(
    (path) => !/^license\.json(\.|$)|^keys\.json$/.test(path) && !contents.has(path.split("/")[1] ?? ""),
  );
  const { killed, ...others } = figures;
  console.log(
    `${language.name}: ${JSON.stringify({ ...others, ...killed, reports: written, months, left: left.length })}`,
  );
}

for (const language of LANGUAGES.filter(({ name }) => name in PROGRAMS)) {
  const canRun = canUnshare && (hasCryptography || language.name !== "Python");
  test.concurrent.skipIf(!canRun)(
    `sixty days without a network: each use is counted once, whatever happens to the files and the processes: ${language.name}`,
    () => walk(language),
  );
}
