/** The module of the page `sdk` in TypeScript on a machine that never has a network: its use, its reports, bundles, its clock. */
import { describe, expect, test } from "bun:test";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { Client, explain, makeReport, Refused } from "../../src/cli/guide/sdk/claviger_client.ts";
import vectors from "../../src/cli/guide/sdk/vectors.json" with { type: "json" };
import { useFolder } from "../support/use_folder.ts";
import { makeBundle } from "./sdk_bundles.ts";
import { KEY_ID, PINNED_KEYS, signLicense } from "./sdk_fake_service.ts";
import { listLocks, nameThisProcess } from "./sdk_locks.ts";

const folder = useFolder();
const LICENSE_ID = "lic_01a2038780767b698ef799a812850001";
const REPORT = { machine: "5d".repeat(32), key: Buffer.alloc(32, 7).toString("base64url") };
const MODULE = join(import.meta.dir, "../../src/cli/guide/sdk/claviger_client.ts");
const nowSeconds = () => Math.floor(Date.now() / 1_000);

function signReporting(more: object = {}): string {
  return signLicense({ sub: LICENSE_ID, report: REPORT, ...more });
}

/** A machine with a license that has a key for reports. */
function create(license: string | null = signReporting()) {
  const home = mkdtempSync(join(folder, "home-"));
  const lines: string[] = [];
  const options = {
    ...{ stateFile: join(home, "state"), fingerprint: "workstation-7" },
    ...{ keys: PINNED_KEYS, audience: "svc", log: (line: string) => void lines.push(line) },
  };
  const file = (kind: string) => `${options.stateFile}.${kind}`;
  if (license !== null) writeFileSync(file("license"), license);
  const path = (name: string) => join(home, name);
  return { home, path, file, lines, options, client: new Client(options), again: () => new Client(options) };
}

function digestOf(path: string): string {
  return new Bun.CryptoHasher("sha256").update(readFileSync(path, "utf8").trimEnd()).digest("hex");
}

function readReport(path: string) {
  const fields = JSON.parse(
    Buffer.from(readFileSync(path, "utf8").split(".")[1] ?? "", "base64url").toString(),
  );
  const uses = fields.days.reduce((sum: number, { count }: { count: number }) => sum + count, 0);
  return { ...fields, uses };
}

describe("record() and report()", () => {
  test("need a license with a key for reports, but not one that is good now", () => {
    const { client, file, path, again } = create(signLicense());
    for (const use of [() => client.record("inference"), () => client.report(path("usb"))])
      expect(use).toThrow(
        "this license has no key for reports: ask the vendor for a file with --fingerprint",
      );
    const times = { iat: nowSeconds() - 600, nbf: nowSeconds() - 600, exp: nowSeconds() - 1 };
    writeFileSync(file("license"), signReporting(times));
    expect(client.mayWork()).toBe(false);
    client.record("inference");
    expect(client.report(path("usb"))).toBe(1);
    writeFileSync(file("license"), signReporting({ fingerprint: "workstation-8" }));
    expect(() => again().record("inference")).toThrow("the license is for another machine");
  });

  test("refuse a use that would spoil a report, and keep nothing of it", () => {
    const { client, file } = create();
    const circular = { again: {} as object };
    circular.again = circular;
    for (const [type, fields, why] of [
      ["shutdown", {}, "event_type must be inference, model_load or error"],
      ["inference", { modelName: "x".repeat(201) }, "model_name must be a text of at most 200 characters"],
      ["inference", { modelName: "a\0b" }, "model_name must be"],
      ["inference", { modelName: "\ud800" }, "model_name must be"],
      ["inference", { inferenceType: "slow" }, "inference_type must be batch or streaming"],
      ["inference", { durationMs: -1 }, "duration_ms must be"],
      ["inference", { errorMessage: "x".repeat(2_001) }, "error_message must be"],
      ["inference", { metadata: { text: "x".repeat(17_000) } }, "metadata must be"],
      ["inference", { occurredAt: new Date("2019-12-31") }, "occurred_at must be a time from 2020-01-01 on"],
      ["inference", { occurredAt: new Date(Number.NaN) }, ""],
      ["inference", { metadata: circular }, ""],
    ] as const)
      expect(() => client.record(type, fields)).toThrow(why);
    expect(existsSync(file("journal"))).toBe(false);
    client.record("inference", { modelName: "é".repeat(200), metadata: { a: [1, { b: null }] } });
  });

  test("number the reports without a gap", () => {
    const { client, path, file, again } = create();
    client.record("inference");
    client.record("error");
    expect(client.report(path("one"))).toBe(1);
    expect(client.report(path("none"))).toBeNull();
    expect(existsSync(path("none"))).toBe(false);
    client.record("inference");
    expect(again().report(path("two"))).toBe(2);
    expect(readReport(path("one"))).toMatchObject({ number: 1, previous: null, uses: 2 });
    expect(readReport(path("two"))).toMatchObject({ number: 2, previous: digestOf(path("one")), uses: 1 });
    for (const [index, name] of ["one", "two"].entries()) {
      client.reportAgain(index + 1, path(`again-${index}`));
      expect(readFileSync(path(`again-${index}`))).toEqual(readFileSync(path(name)));
    }
    expect(readdirSync(file("reports")).toSorted()).toEqual(["000001.report", "000002.report"]);
  });

  test("lose nothing and count nothing twice after a kill before any step, and of the next report, and then hold all", async () => {
    // The module with file functions that end at a step: nothing that follows is done, as after a kill.
    const source = readFileSync(MODULE, "utf8");
    const killable = join(folder, "killable.ts");
    writeFileSync(
      killable,
      source.replace('from "node:fs"', `from ${JSON.stringify(join(folder, "fs.ts"))}`),
    );
    writeFileSync(
      join(folder, "fs.ts"),
      `import fs from "node:fs";
export * from "node:fs";
let left = Infinity;
export const killAfter = (steps) => { left = steps; };
const step = (name) => (...args) => {
  if (--left < 0) throw new Error("killed");
  return fs[name](...args);
};
${["renameSync", "rmSync", "linkSync", "appendFileSync", "mkdirSync", "writeSync"].map((name) => `export const ${name} = step("${name}");`).join("\n")}
export const openSync = (path, flags, mode) => flags === "r" ? fs.openSync(path, flags) : step("openSync")(path, flags, mode);
`,
    );
    const { killAfter } = await import(join(folder, "fs.ts"));
    const { Client: Killable } = await import(killable);
    /** Whether it was killed before so many steps. */
    function killReport({ options, path, file }: ReturnType<typeof create>, steps: number): boolean {
      const client = new Killable(options);
      killAfter(steps);
      try {
        client.report(path(`killed-${steps}`), { withEvents: steps % 3 === 0 });
        return false;
      } catch (error) {
        expect(String(error)).toContain("killed");
        // Its process has ended.
        if (existsSync(file("journal.lock")))
          writeFileSync(file("journal.lock"), nameThisProcess("999999999 1 PLACE"));
        return true;
      } finally {
        killAfter(Number.POSITIVE_INFINITY);
      }
    }
    /** Whether both reports were killed. */
    function run(first: number, second?: number): boolean {
      const machine = create();
      const { client, path, file, again } = machine;
      for (let use = 0; use < 3; use++) client.record("inference");
      expect(client.report(path("one"))).toBe(1);
      for (let use = 0; use < 4; use++) client.record("inference", { modelName: "é" });
      const killed = [killReport(machine, first)];
      client.record("error");
      if (second !== undefined) {
        killed.push(killReport(machine, second));
        client.record("model_load");
      }
      const number = again().report(path("last"));
      // A line that is there twice would be one of them.
      expect(machine.lines.at(-1)).not.toContain("damaged");
      const kept = readdirSync(file("reports"))
        .filter((name) => name.endsWith(".report"))
        .toSorted()
        .map((name) => join(file("reports"), name));
      const reports = kept.map(readReport);
      const uses = reports.reduce((sum, report) => sum + report.uses, 0);
      expect({ first, second, uses, number }).toEqual({
        ...{ first, second, uses: second === undefined ? 8 : 9, number: reports.length },
      });
      reports.forEach((report, index) => {
        expect(report.number).toBe(index + 1);
        expect(report.previous).toBe(index === 0 ? null : digestOf(kept[index - 1] ?? ""));
      });
      expect(again().report(path("last"))).toBeNull();
      for (const kind of ["journal.old", "journal.new", "journal.lock"])
        expect({ kind, isThere: existsSync(file(kind)) }).toEqual({ kind, isThere: false });
      return killed.every((each) => each);
    }
    let steps = 0;
    while (run(steps)) steps++;
    expect(steps).toBeGreaterThan(15);
    let both = 0;
    for (let first = 0; first < steps; first++)
      for (let second = 0; second < steps; second += 2) if (run(first, second)) both++;
    expect(both).toBeGreaterThan(60);
  }, 60_000);

  test("count a report, and write it where it was wanted, if the journal cannot be cut after it, and put the rest into the next one", async () => {
    const full = join(folder, "full.ts");
    const source = readFileSync(MODULE, "utf8");
    writeFileSync(
      full,
      source.replace('from "node:fs"', `from ${JSON.stringify(join(folder, "full_fs.ts"))}`),
    );
    // The disk is full for some files as soon as the head has the number of the report.
    writeFileSync(
      join(folder, "full_fs.ts"),
      `import fs from "node:fs";
import { basename } from "node:path";
export * from "node:fs";
let failing = null;
let isFull = false;
export const fillFor = (begin) => { failing = begin; isFull = false; };
const step = (name) => (...args) => {
  const file = basename(String(args[0]));
  if (isFull && failing !== null && file.startsWith(failing) && !file.endsWith(".lock"))
    throw Object.assign(new Error("ENOSPC: no space left on device, open 'x'"), { code: "ENOSPC" });
  if (name === "renameSync" && args[1].endsWith(".head")) isFull = true;
  return fs[name](...args);
};
${["renameSync", "rmSync", "appendFileSync"].map((name) => `export const ${name} = step("${name}");`).join("\n")}
export const openSync = (path, flags, mode) => flags === "r" ? fs.openSync(path, flags) : step("openSync")(path, flags, mode);
`,
    );
    const { fillFor } = await import(join(folder, "full_fs.ts"));
    const { Client: Full } = await import(full);
    for (const failing of ["state.journal.old", "state.journal"])
      for (const more of [1, 20_002]) {
        const { client, options, path, file, lines, again } = create();
        client.record("inference");
        const line = JSON.parse(readFileSync(file("journal"), "utf8"));
        for (const index of Array(more).keys())
          appendFileSync(
            file("journal"),
            `${JSON.stringify({ ...line, idempotency_key: String(index), model_name: String(index) })}\n`,
          );
        fillFor(failing);
        const number = new Full(options).report(path("one"));
        fillFor(null);
        const first = Math.min(more + 1, 20_000);
        const cut = "the next report cuts the journal: no space left on device";
        expect({ failing, number, line: lines.at(-1) }).toEqual({
          ...{ failing, number: 1, line: `report: ${first} uses in report 1, ${cut}` },
        });
        expect(readReport(path("one")).uses).toBe(first);
        again().record("error");
        expect(again().report(path("two"))).toBe(2);
        expect(readReport(path("two")).uses).toBe(more + 1 - first + 1);
        expect(lines.at(-1)).toMatch(/^report: \d uses in report 2, 0 waiting$/);
      }
  });

  test("replace no file: a report that is there is good, and another file is not", () => {
    const { client, path, file } = create();
    client.record("inference");
    writeFileSync(path("usb"), "a photo");
    const before = ["journal", "journal.head"].map((kind) => readFileSync(file(kind), "utf8"));
    const taken = `there is a file ${path("usb")} already: name another one, or move it away`;
    expect(() => client.report(path("usb"))).toThrow(taken);
    expect(["journal", "journal.head"].map((kind) => readFileSync(file(kind), "utf8"))).toEqual(before);
    expect(existsSync(file("reports"))).toBe(false);
    expect(client.report(path("one"))).toBe(1);
    // Nothing is new: the file of the report before stays as it is.
    expect(client.report(path("one"))).toBeNull();
    client.reportAgain(1, path("one"));
    expect(() => client.reportAgain(1, path("usb"))).toThrow(taken);
    expect(readFileSync(path("usb"), "utf8")).toBe("a photo");
    client.record("inference");
    expect(() => client.report(path("one"))).toThrow("already: name another one");
    expect(readReport(path("one")).number).toBe(1);
  });

  test("write no report again that is of another journal, or that was changed", () => {
    const { client, path, file } = create();
    for (const name of ["one", "two", "three"]) {
      client.record("inference");
      client.report(path(name));
    }
    const kept = (number: number) => join(file("reports"), `00000${number}.report`);
    const other = create();
    for (const name of ["one", "two", "three"]) {
      other.client.record("error");
      other.client.report(other.path(name));
    }
    const expectRefused = (number: number) =>
      expect(() => client.reportAgain(number, path("again"))).toThrow(
        `${kept(number)} is not the report ${number} of this journal: put back the file that was there`,
      );
    // Of another journal; and with another use, which only the report after it can tell, or the head.
    for (const [number, text] of [
      [2, readFileSync(other.path("two"), "utf8")],
      [1, readFileSync(path("one"), "utf8").replace(/\.[^.]*$/, ".AAAA\n")],
      [3, readFileSync(path("three"), "utf8").replace(/\.[^.]*$/, ".AAAA\n")],
      [3, readFileSync(path("two"), "utf8")],
    ] as const) {
      const good = readFileSync(kept(number));
      writeFileSync(kept(number), text);
      expectRefused(number);
      writeFileSync(kept(number), good);
    }
    // Without the one after it, nobody can tell more.
    rmSync(kept(2));
    client.reportAgain(1, path("again"));
    expect(readFileSync(path("again"))).toEqual(readFileSync(path("one")));
    expect(() => client.reportAgain(2, path("more"))).toThrow("there is no report 2");
  });

  test("write a report again that was cut while it was written", () => {
    const { client, path, file } = create();
    client.record("inference");
    mkdirSync(file("reports"));
    writeFileSync(join(file("reports"), "000001.report"), "e30.e30");
    expect(client.report(path("usb"))).toBe(1);
    client.reportAgain(1, path("again"));
    expect(readReport(path("again")).uses).toBe(1);
  });

  test("keep a report that could not be written where it was wanted", () => {
    const { client, path, file } = create();
    client.record("inference");
    expect(() => client.report(path("missing/usb"))).toThrow(
      `there is no folder ${path("missing")}: create it`,
    );
    const long = path("x".repeat(300));
    expect(() => client.report(long)).toThrow(`report 1 is in ${file("reports")}, but not at ${long}: `);
    client.reportAgain(1, path("stick"));
    expect(readReport(path("stick"))).toMatchObject({ number: 1, uses: 1 });
    expect(client.report(path("next"))).toBeNull();
    for (const number of [0, 2, 1.5])
      expect(() => client.reportAgain(number, path("next"))).toThrow(`there is no report ${number}`);
  });

  test("begin no second journal after a loss, nor one of another license", () => {
    const { client, path, file } = create();
    client.record("inference");
    client.report(path("one"));
    const head = readFileSync(file("journal.head"), "utf8");
    for (const damage of ["", "{}", head.slice(0, 50), head.replace(/"number":1/, '"number":0')]) {
      writeFileSync(file("journal.head"), damage);
      expect(() => client.record("inference")).toThrow("is missing or damaged");
    }
    rmSync(file("journal.head"));
    expect(() => client.report(path("two"))).toThrow("is missing or damaged");
    writeFileSync(file("journal.head"), head);
    writeFileSync(file("license"), signReporting({ sub: "lic_01a2038780767b698ef799a812850009" }));
    expect(() => client.record("inference")).toThrow("belongs to another license or machine");
    writeFileSync(file("license"), signReporting());
    client.record("inference");
    expect(client.report(path("two"))).toBe(2);
  });

  test("drop damaged lines, and only those", () => {
    const { client, path, file, lines, again } = create();
    client.record("inference");
    appendFileSync(file("journal"), `${"x".repeat(200_000)}\n[]\n{"idempotency_key":"torn`);
    again().record("inference");
    expect(client.report(path("one"))).toBe(1);
    expect(lines.at(-1)).toMatch(/^report: \d damaged lines dropped; 2 uses in report 1, 0 waiting$/);
    expect(readReport(path("one")).uses).toBe(2);
  });

  test("refuse a second report at the same time, and take over what a process left that has ended", () => {
    const { client, path, file } = create();
    const sleeper = Bun.spawn(["sleep", "60"]);
    const ended = Bun.spawnSync(["true"]).pid;
    let reports = 0;
    for (const { what, text, ageSeconds, isHeld } of listLocks({ asleep: sleeper.pid, ended })) {
      client.record("inference");
      writeFileSync(file("journal.lock"), nameThisProcess(text));
      utimesSync(file("journal.lock"), nowSeconds() - ageSeconds, nowSeconds() - ageSeconds);
      const report = () => client.report(path(what));
      if (isHeld) expect(report, what).toThrow("another report is being written: wait until it is done");
      else expect({ what, number: report() }).toEqual({ what, number: ++reports });
      expect({ what, isThere: existsSync(file("journal.lock")) }).toEqual({ what, isThere: isHeld });
    }
    sleeper.kill();
  });

  test("refuse a second report of another client in the same process", () => {
    const { client, options, path, file } = create();
    client.record("inference");
    const refused: unknown[] = [];
    const log = () => {
      client.record("error");
      try {
        client.report(path("two"));
      } catch (error) {
        refused.push(String(error), readFileSync(file("journal.lock"), "utf8"));
      }
    };
    expect(new Client({ ...options, log }).report(path("one"))).toBe(1);
    expect(refused).toEqual([
      expect.stringContaining("another report is being written: wait until it is done"),
      nameThisProcess("PID BEGIN PLACE"),
    ]);
    expect(existsSync(file("journal.lock"))).toBe(false);
    expect(client.report(path("two"))).toBe(2);
  });

  test("count each use once while other processes record", async () => {
    const { client, options, path } = create();
    const { log: _, ...plain } = options;
    const script = `
      const { Client } = await import(${JSON.stringify(MODULE)});
      const client = new Client(${JSON.stringify(plain)});
      for (let use = 0; use < 400; use++) {
        client.record("inference");
        if (use % 10 === 0) await Bun.sleep(1);
      }`;
    const writers = [1, 2, 3].map(() => Bun.spawn([process.execPath, "-e", script], { timeout: 60_000 }));
    const ended = Promise.all(writers.map(({ exited }) => exited));
    let isOver = false;
    void ended.then(() => {
      isOver = true;
    });
    let number: number | null = 0;
    let reports = 0;
    const keys: string[] = [];
    for (let isLast = false; !isLast; ) {
      isLast = isOver;
      const to = path(`usb-${reports}`);
      number = client.report(to, { withEvents: true });
      if (number !== null) {
        reports++;
        const { events, ...fields } = readReport(to);
        expect(fields.number).toBe(reports);
        for (const { idempotency_key } of events) keys.push(idempotency_key);
      }
      await Bun.sleep(1);
    }
    expect(await ended).toEqual([0, 0, 0]);
    expect({ uses: keys.length, different: new Set(keys).size }).toEqual({ uses: 1_200, different: 1_200 });
    expect(reports).toBeGreaterThan(3);
  }, 60_000);

  test("put into one report what it can hold, and the rest into the next one", () => {
    const { client, path, file, lines } = create();
    client.record("inference");
    const line = (key: number, more: object = {}) =>
      `${JSON.stringify({ idempotency_key: `k${key}`, occurred_at: "2026-11-01T00:00:00.000Z", event_type: "inference", ...more })}\n`;
    const many = Array.from({ length: 100_000 }, (_, key) => line(key));
    writeFileSync(file("journal"), many.concat(line(100_000)).join(""));
    expect(client.report(path("one"), { withEvents: true })).toBe(1);
    expect(lines.at(-1)).toBe("report: 100000 uses in report 1, 1 waiting");
    expect(client.report(path("two"))).toBe(2);
    expect(readReport(path("two")).uses).toBe(1);
    const names = Array.from({ length: 20_005 }, (_, key) => line(key, { model_name: `m${key}` }));
    writeFileSync(file("journal"), names.join(""));
    client.report(path("three"));
    expect(readReport(path("three")).days.length).toBe(20_000);
    expect(lines.at(-1)).toBe("report: 20000 uses in report 3, 5 waiting");
    // 32 MiB, as the service reads them.
    const long = Array.from({ length: 600 }, (_, key) =>
      line(key, {
        metadata: Object.fromEntries([["text", "x".repeat(16_000)]]),
        error_message: "é".repeat(2_000),
      }),
    );
    const lineOf = (text: string, index: number) => ({ text, end: index + 1 });
    const [vector] = vectors.reports;
    if (vector === undefined) throw new Error("There is no vector");
    const request = { ...vector, licenseId: LICENSE_ID, madeAt: vector.made_at, withEvents: true };
    const all = Array.from({ length: 4 }, (_, times) =>
      long.map((text) => text.replace('"k', `"k${times}-`)),
    );
    const made = makeReport(all.flat().map(lineOf), request);
    expect(made.text?.length).toBeWithin(30_000_000, 33_554_432);
    expect(made.end).toBe(made.uses);
  }, 60_000);

  test("stop before the journal is too large", () => {
    const { client, file, again } = create();
    client.record("inference");
    writeFileSync(file("journal"), "{}\n".repeat(1_000_000));
    expect(() => again().record("inference")).toThrow(`1000000 uses wait in ${file("journal")}: report them`);
  });

  test("count no use before the license was issued", () => {
    const iat = nowSeconds() + 86_400 * 40;
    const { client, path } = create(signReporting({ iat }));
    client.record("inference");
    client.report(path("one"));
    const { made_at, days } = readReport(path("one"));
    expect(Date.parse(made_at) / 1_000).toBe(iat);
    expect(days[0].day).toBe(made_at.slice(0, 10));
  });

  test("count a use of a clock that was ahead at the time of the report", () => {
    const { client, path } = create();
    client.record("inference", { occurredAt: new Date(Date.now() + 30 * 86_400_000) });
    client.report(path("one"), { withEvents: true });
    const { made_at, days, events } = readReport(path("one"));
    expect(days[0].day).toBe(made_at.slice(0, 10));
    expect(events[0].occurred_at).toBe(made_at.replace("Z", ".000Z"));
  });
});

describe("openBundle()", () => {
  const CONTENTS = { models: { speller: "a model" }, files: { "core-2.tar.gz": "core", empty: "" } };

  function createFolders() {
    const machine = create(signReporting({ iat: nowSeconds() - 100, nbf: nowSeconds() - 100 }));
    const [modelsFolder, filesFolder] = [machine.path("models"), machine.path("files")];
    mkdirSync(modelsFolder);
    mkdirSync(filesFolder);
    const open = (bytes: Uint8Array, more: object = { modelsFolder, filesFolder }) => {
      writeFileSync(machine.path("bundle.tar"), bytes);
      return machine.client.openBundle(machine.path("bundle.tar"), more);
    };
    const list = () => [modelsFolder, filesFolder].map((each) => readdirSync(each).toSorted());
    return { ...machine, modelsFolder, filesFolder, open, list };
  }

  test("puts the models, the files and the license in their places, and only what is not there already", async () => {
    const { open, list, path, client, file, modelsFolder, filesFolder, again } = createFolders();
    const bundle = makeBundle({ ...CONTENTS, license: { report: REPORT } });
    const opened = {
      models: [path("models/speller-1.0.0.onnx")],
      files: [path("files/core-2.tar.gz"), path("files/empty")],
    };
    writeFileSync(path("files/empty"), "");
    writeFileSync(path("files/core-2.tar.gz"), "an older core");
    expect(await open(bundle)).toMatchObject(opened);
    expect(list()).toEqual([["speller-1.0.0.onnx"], ["core-2.tar.gz", "empty"]]);
    expect(readFileSync(path("files/core-2.tar.gz"), "utf8")).toBe("core");
    expect(client.claims()).toMatchObject({ key_id: KEY_ID, report: REPORT });
    expect(again().mayWork()).toBe(true);
    // The same bundle again, and without folders: its contents are only checked.
    expect(await open(bundle)).toMatchObject(opened);
    rmSync(modelsFolder, { recursive: true });
    expect(await open(bundle, {})).toMatchObject({ models: [], files: [] });
    await expect(open(bundle, { modelsFolder })).rejects.toThrow(`there is no folder ${modelsFolder}`);
    mkdirSync(path("files/speller-1.0.0.onnx"));
    await expect(open(bundle, { modelsFolder: filesFolder })).rejects.toThrow("is no file: move it away");
    const twice = makeBundle({ models: { a: "1" }, files: { "a-1.0.0.onnx": "2" } });
    const both = { modelsFolder: filesFolder, filesFolder };
    await expect(open(twice, both)).rejects.toThrow("two files of the bundle would be");
    expect(readdirSync(filesFolder).toSorted()).toEqual(["core-2.tar.gz", "empty", "speller-1.0.0.onnx"]);
    const missing = path("missing.tar");
    await expect(client.openBundle(missing)).rejects.toThrow(`cannot read ${missing}: no such file`);
    expect(readdirSync(path("")).filter((name) => name.includes("-")).length).toBe(0);
    expect(readFileSync(file("license"), "utf8")).toEndWith("\n");
  });

  test("accepts no altered byte, and a refused bundle changes nothing", async () => {
    const { open, list, file, options } = createFolders();
    const bundle = makeBundle(CONTENTS);
    const before = [file("license"), options.stateFile].map((path) => readFileSync(path, "utf8"));
    let state = 7;
    const below = (most: number) => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      return (state >>> 8) % most;
    };
    for (let round = 0; round < 1_500; round++) {
      const at = below(bundle.length);
      const [head, tail] = [bundle.subarray(0, at), bundle.subarray(at)];
      const flipped = Buffer.from(bundle);
      flipped[at] = (flipped[at] ?? 0) ^ (1 << below(8));
      const altered = [
        flipped,
        head,
        Buffer.concat([head, tail.subarray(1 + below(600))]),
        Buffer.concat([head, Buffer.alloc(1 + below(2) * 511), tail]),
        Buffer.concat([tail, head]),
        Buffer.concat([bundle, bundle.subarray(0, at + 1)]),
      ][round % 6];
      if (altered === undefined || altered.equals(bundle)) continue;
      const error = await open(altered).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(Refused);
      expect(list()).toEqual([[], []]);
    }
    expect([file("license"), options.stateFile].map((path) => readFileSync(path, "utf8"))).toEqual(before);
    await open(bundle);
  }, 60_000);

  test("refuses an older bundle than the license that is there, but not the same one", async () => {
    const { open, client } = createFolders();
    const at = (ago: number) => ({ license: { iat: nowSeconds() - ago, nbf: nowSeconds() - ago } });
    const first = makeBundle(at(50));
    await open(first);
    const second = makeBundle(at(20));
    await open(second);
    await open(second);
    await expect(open(first)).rejects.toThrow("this bundle is older than the license that is there");
    const other = makeBundle({ license: { key_id: "key_other" } });
    await expect(open(other)).rejects.toThrow("the license is for another key");
    expect(client.claims().iat).toBeGreaterThan(nowSeconds() - 40);
  });
});

describe("the clock", () => {
  const YEAR = 31_536_000;

  /** Writes what a clock that was wrong has left. */
  function setSeen({ options }: ReturnType<typeof create>, seen: number): void {
    const state = JSON.parse(readFileSync(options.stateFile, "utf8"));
    writeFileSync(options.stateFile, JSON.stringify({ ...state, seen }));
  }

  test("is corrected by each newer license once, and never by one that was seen", async () => {
    const now = nowSeconds();
    const old = signReporting({ iat: now - 100, nbf: now - 100 });
    const machine = create(old);
    expect(machine.client.claims().iat).toBe(now - 100);
    const behind = "the clock is behind: correct it, or open a newer bundle or license";
    setSeen(machine, now + YEAR);
    expect(() => machine.again().claims()).toThrow(behind);
    writeFileSync(machine.file("license"), signReporting({ iat: now - 50, nbf: now - 50, jti: "newer" }));
    const corrected = machine.again();
    expect(corrected.mayWork()).toBe(true);
    expect(JSON.parse(readFileSync(machine.file("license.terms"), "utf8"))).toMatchObject({
      ...{ iat: now - 50, jti: "newer", key_id: KEY_ID },
    });
    expect(JSON.parse(readFileSync(machine.options.stateFile, "utf8")).seen).toBe(now - 50);
    for (const seen of [old, readFileSync(machine.file("license"), "utf8")]) {
      setSeen(machine, now + YEAR);
      writeFileSync(machine.file("license"), seen);
      expect(() => machine.again().claims()).toThrow(behind);
    }
    // Also after it was away.
    await expect(machine.again().giveBack()).rejects.toThrow(
      "no address of a service and no API key are set",
    );
    rmSync(machine.file("license"));
    writeFileSync(machine.file("license"), signReporting({ iat: now - 50, nbf: now - 50 }));
    expect(() => machine.again().claims()).toThrow(behind);
    await machine
      .again()
      .openBundle(write(machine, makeBundle({ license: { iat: now - 10, nbf: now - 10 } })));
    expect(machine.again().mayWork()).toBe(true);
  });

  test("is refused before the time of issue, and then nothing is noted", () => {
    const now = nowSeconds();
    const machine = create(signReporting({ iat: now + 400, nbf: now + 400 }));
    setSeen(machine, now + YEAR);
    expect(() => machine.again().claims()).toThrow("the clock is behind");
    expect(existsSync(machine.file("license.terms"))).toBe(false);
    expect(JSON.parse(readFileSync(machine.options.stateFile, "utf8")).seen).toBe(now + YEAR);
  });

  function write({ path }: ReturnType<typeof create>, bytes: Uint8Array): string {
    writeFileSync(path("bundle.tar"), bytes);
    return path("bundle.tar");
  }
});

test("a client without an address or a key says what is missing for what needs it, and does the rest", async () => {
  const { client, options } = create();
  const both =
    "no address of a service and no API key are set: give them to the client (for commands LICENSE_URL and LICENSE_KEY)";
  for (const ask of [
    ...[() => client.validate(), () => client.activate(), () => client.release(), () => client.run()],
    ...[() => client.borrow(), () => client.giveBack(), () => client.models(), () => client.sendEvents()],
    ...[() => client.download("a", { folder }), () => client.runEvents()],
  ])
    await expect(ask()).rejects.toThrow(new Refused(both));
  expect(() => client.logEvent("inference")).toThrow(both);
  expect(client.mayWork()).toBe(true);
  const noUrl = new Client({ ...options, apiKey: `svc_live_${"0".repeat(48)}` });
  await expect(noUrl.validate()).rejects.toThrow(
    "no address of a service is set: give it to the client (for commands LICENSE_URL)",
  );
  const noKey = new Client({ ...options, url: "http://127.0.0.1:1" });
  await expect(noKey.validate()).rejects.toThrow(
    "no API key is set: give it to the client (for commands LICENSE_KEY)",
  );
});

test("why() says what helps a machine in a closed network", () => {
  const { client, file } = create(null);
  expect(client.why()?.message).toBe(explain("license_missing", true));
  const times = { iat: nowSeconds() - 600, nbf: nowSeconds() - 600, exp: nowSeconds() - 1 };
  writeFileSync(file("license"), signReporting(times));
  expect(client.why()?.message).toBe(explain("expired", true));
  writeFileSync(file("license"), signReporting({ iat: nowSeconds() + 900 }));
  expect(client.why()?.message).toBe(explain("clock_behind", true));
  writeFileSync(file("license"), signReporting());
  expect(client.why()).toBeNull();
});

test("reports name the version of Claviger with which the module comes", async () => {
  const { version } = await Bun.file(join(import.meta.dir, "../../package.json")).json();
  expect(readFileSync(MODULE, "utf8")).toContain(`const CLIENT = "typescript ${version}";`);
});
