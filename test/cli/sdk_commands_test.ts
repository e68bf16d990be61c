/**
 * The modules in Python and TypeScript, run as programs, do the same and say the same: kept answers, signed licenses,
 * models and events. The other tests of the clients are about places on machines.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash, createHmac } from "node:crypto";
import {
  chownSync,
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
import { until } from "../support/until.ts";
import { useFolder } from "../support/use_folder.ts";
import { CLOSED_WHY } from "./license_reasons.ts";
import { makeBundle } from "./sdk_bundles.ts";
import {
  countEvents,
  inOrder,
  KEY_ID,
  licenseAnswer,
  listOf,
  modelOf,
  PINNED_KEYS,
  refusedWith,
  serveFile,
  signLicense,
  startFakeService,
  VALID,
} from "./sdk_fake_service.ts";
import { createInstaller, LANGUAGES, type Language } from "./sdk_languages.ts";
import { hasCryptography } from "./sdk_python.ts";

// A busy machine starts an interpreter in seconds.
setDefaultTimeout(120_000);

const KEY = `svc_live_${"0123456789abcdef".repeat(3)}`;
const folder = useFolder();
const install = createInstaller(folder, KEY);
const MODULES = LANGUAGES.filter(({ name }) => !name.startsWith("shell"));
const CHECKERS = MODULES.filter(({ name }) => hasCryptography || name !== "Python");

/** Installs a client in a folder of its own, with pinned keys. */
function create(language: Language, url: string, more = {}) {
  const home = mkdtempSync(join(folder, "home-"));
  const keys = join(home, "keys.json");
  writeFileSync(keys, JSON.stringify(PINNED_KEYS));
  const settings = { LICENSE_STATE: join(home, "state"), LICENSE_KEYS: keys, LICENSE_AUDIENCE: "svc" };
  const client = install(language, url, { ...settings, ...more });
  const run = (...args: readonly string[]) => client.runArguments([language.module, ...args]);
  return {
    ...client,
    home,
    keys,
    run,
    read: (kind: string) => readFileSync(`${client.stateFile}.${kind}`, "utf8"),
  };
}

/** A machine in a closed network has neither the address of a service nor an API key. */
const OFFLINE = { LICENSE_KEY: "" };
const LICENSE_ID = "lic_01a2038780767b698ef799a812850001";
const REPORT_KEY = Buffer.alloc(32, 7);
const REPORT = { machine: "5d".repeat(32), key: REPORT_KEY.toString("base64url") };
/** What a machine in a closed network says. */
const SENTENCES = CLOSED_WHY;

/** Reads a report as the service does. */
function readReport(path: string) {
  const line = readFileSync(path, "utf8").replace(/\n$/, "");
  const [head = "", payload = "", signature] = line.split(".");
  const expected = createHmac("sha256", REPORT_KEY).update(`${head}.${payload}`).digest("base64url");
  expect(signature).toBe(expected);
  expect(JSON.parse(Buffer.from(head, "base64url").toString())).toEqual({
    ...{ alg: "HS256", typ: "usage-report+jwt" },
  });
  const fields = JSON.parse(Buffer.from(payload, "base64url").toString());
  const digest = createHash("sha256").update(line).digest("hex");
  return { fields, digest, journal: fields.journal, day: fields.days[0].day };
}

/** The last line of what a command says. */
const lastOf = async (running: Promise<{ readonly lines: readonly string[] }>) =>
  (await running).lines.at(-1);

/** Writes an empty file that was changed so many seconds ago. */
function writeAged(path: string, seconds: number): void {
  writeFileSync(path, "");
  const changedAt = Date.now() / 1_000 - seconds;
  utimesSync(path, changedAt, changedAt);
}

describe("a module of the page `sdk` as a program", () => {
  for (const language of MODULES) {
    test.concurrent(`keeps the answer of validate for the time without a network, until the key is refused: ${language.name}`, async () => {
      using service = await startFakeService();
      const { run, stateFile } = create(language, service.url, { LICENSE_KEYS: "" });
      const nothing = await run("features");
      expect({ ...nothing, lines: nothing.lines.length }).toEqual({ status: 1, out: "", lines: 1 });

      service.on("/v1/auth/validate", () => ({ body: VALID }));
      const { status, out, lines } = await run("validate");
      expect({ status, lines, body: JSON.parse(out) }).toEqual({
        ...{ status: 0, lines: ["validate: 200"] },
        body: VALID,
      });
      expect(service.requests[0]?.fields).toEqual({ api_key: KEY });
      expect(statSync(`${stateFile}.validated`).mode & 0o777).toBe(0o600);

      service.on("/v1/auth/validate", () => "close");
      expect(await run("validate")).toMatchObject({
        ...{ status: 1, out: "" },
        lines: [expect.stringMatching(/^validate: no answer: \S/)],
      });
      const features = "feature streaming\nfeature training\nvalue channels 64\n";
      expect(await run("features")).toMatchObject({ status: 0, out: features });

      service.on("/v1/auth/validate", () => refusedWith(429, "QUOTA_EXCEEDED"));
      expect((await run("validate")).status).toBe(1);
      expect((await run("features")).status).toBe(0);
      service.on("/v1/auth/validate", () => refusedWith(401, "INVALID_KEY"));
      const refused = await run("validate");
      expect({ status: refused.status, lines: refused.lines, body: JSON.parse(refused.out) }).toMatchObject({
        ...{ status: 1, lines: ["validate: 401 INVALID_KEY"] },
        body: { code: "INVALID_KEY" },
      });
      expect((await run("features")).status).toBe(1);
    });

    test.concurrent(`downloads a model through cut connections, and fetches no file twice: ${language.name}`, async () => {
      using service = await startFakeService();
      using elsewhere = await startFakeService();
      const { run, home } = create(language, service.url);
      const bytes = crypto.getRandomValues(new Uint8Array(60_000));
      const model = modelOf("speller", service.url, bytes);
      const moved = modelOf("moved", service.url, bytes);
      const wrong = modelOf("wrong", service.url, bytes, { checksum: `sha256:${"0".repeat(64)}` });
      const list = listOf(moved, model, wrong, modelOf("../../evil", service.url, bytes));
      service.on("/v1/models/list", () => list);
      service.on("/file/speller.onnx", serveFile(bytes, '"tag"', [20_000, 10_000]));

      const listed = await run("models");
      expect({ status: listed.status, out: listed.out.split("\n")[1] }).toEqual({
        ...{ status: 0, out: `speller 1.0.0 ${model.checksum}` },
      });
      const path = join(home, "speller-1.0.0.onnx");
      expect(await run("download", "speller", home)).toMatchObject({ status: 0, out: `${path}\n` });
      expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);
      const requests = service.to("/file/speller.onnx");
      expect(requests.length).toBeWithin(2, 5);
      // On a busy machine a runtime may lose bytes that came just before the cut, so the range may begin earlier.
      for (const { headers } of requests)
        if (headers.range !== undefined)
          expect([headers.range, headers["if-range"]]).toEqual([
            expect.stringMatching(/^bytes=\d+-$/),
            '"tag"',
          ]);
      expect(requests.at(-1)?.headers.range).toBeDefined();
      expect(await run("download", "speller", "1.0.0", home)).toMatchObject({ status: 0, out: `${path}\n` });
      expect(service.to("/file/speller.onnx").length).toBe(requests.length);

      // A bucket or another host may serve the file. It never gets the key.
      service.on("/file/moved.onnx", () => ({
        status: 302,
        headers: { Location: `${elsewhere.url}/bucket` },
      }));
      elsewhere.on("/bucket", serveFile(bytes, '"tag"'));
      expect((await run("download", "moved", home)).status).toBe(0);
      const sent = JSON.stringify(
        [...service.requests, ...elsewhere.requests].filter(({ path }) => !path.startsWith("/v1/")),
      );
      expect({ requests: elsewhere.requests.length, hasKey: sent.includes(KEY) }).toEqual({
        requests: 1,
        hasKey: false,
      });

      service.on("/file/wrong.onnx", serveFile(bytes, '"tag"'));
      for (const [args, why] of [
        [["wrong"], "refused: the file of wrong is not the one of the list: its checksum differs"],
        [["../../evil"], "refused: the service sent a name that is no file name: ../../evil-1.0.0.onnx"],
        [
          ["speller", "2.0.0"],
          "refused: there is no model speller 2.0.0, or the license does not include it",
        ],
      ] as const) {
        const ended = await run("download", ...args, home);
        expect({ status: ended.status, out: ended.out, why: ended.lines.at(-1) }).toEqual({
          status: 1,
          out: "",
          why,
        });
      }
      const left = ["keys.json", "moved-1.0.0.onnx", "speller-1.0.0.onnx"];
      expect(
        readdirSync(home)
          .filter((name) => !name.startsWith("state") && !name.endsWith(".checksum"))
          .toSorted(),
      ).toEqual(left);
    });

    test.concurrent(`lists the models again when a link has ended, and gives up after four lost connections: ${language.name}`, async () => {
      using service = await startFakeService();
      const { run, home } = create(language, service.url);
      const bytes = new TextEncoder().encode("a small model");
      const ended = modelOf("speller", service.url, bytes, { download_url: `${service.url}/old.onnx` });
      service.on("/old.onnx", () => refusedWith(401, "INVALID_LINK"));
      service.on("/v1/models/list", inOrder(listOf(ended), listOf(modelOf("speller", service.url, bytes))));
      service.on(
        "/file/speller.onnx",
        inOrder(refusedWith(503, "SERVICE_UNAVAILABLE", { "Retry-After": "1" }), { body: bytes }),
      );
      const got = await run("download", "speller", home);
      expect({ status: got.status, lists: service.to("/v1/models/list").length }).toEqual({
        status: 0,
        lists: 2,
      });
      rmSync(join(home, "speller-1.0.0.onnx"));
      service.on("/file/speller.onnx", () => "close");
      const lost = await run("download", "speller", home);
      expect({ status: lost.status, requests: service.to("/file/speller.onnx").length }).toEqual({
        status: 1,
        requests: 6,
      });
      expect(lost.lines.at(-1)).toMatch(/^refused: the file of speller cannot be fetched: \S.*$/);
    });

    test.concurrent(`puts events into a queue without a network, and sends them later: ${language.name}`, async () => {
      using service = await startFakeService();
      const { run, read, stateFile } = create(language, service.url);
      const began = Date.now();
      const first = await run("log", "inference", "speller");
      expect({ ...first }).toMatchObject({
        ...{ status: 0, out: expect.stringMatching(/^[0-9a-f]{32}\n$/), lines: [] },
      });
      expect((await run("log", "model_load")).status).toBe(0);
      expect(statSync(`${stateFile}.events`).mode & 0o777).toBe(0o600);
      expect(service.requests).toEqual([]);

      service.on("/v1/analytics/batch", () => refusedWith(401, "INVALID_KEY"));
      const waiting = "accepted 0\nrefused 0\nwaiting 2\n";
      expect(await run("send")).toEqual({
        ...{ status: 1, out: waiting },
        lines: [
          "events: 401 INVALID_KEY; 0 accepted, 0 refused, 2 waiting; stop: The sentence of INVALID_KEY",
        ],
      });
      // A crash in the middle of a line loses this line alone.
      writeFileSync(`${stateFile}.events`, `${read("events")}{"idempotency_key":"torn`);
      expect((await run("log", "error")).status).toBe(0);
      service.on(
        "/v1/analytics/batch",
        countEvents(({ event_type }) => (event_type === "model_load" ? "QUOTA_EXCEEDED" : undefined)),
      );
      expect(await run("send")).toMatchObject({ status: 0, out: "accepted 2\nrefused 1\nwaiting 0\n" });
      const { headers, fields } = service.requests.at(-1) ?? {};
      expect(headers?.["x-api-key"]).toBe(KEY);
      const occurred_at = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      const idempotency_key = expect.stringMatching(/^[0-9a-f]{32}$/);
      expect(fields.events).toEqual([
        { idempotency_key: first.out.trim(), occurred_at, event_type: "inference", model_name: "speller" },
        { idempotency_key, occurred_at, event_type: "model_load" },
        { idempotency_key, occurred_at, event_type: "error" },
      ]);
      expect(Date.parse(fields.events[0].occurred_at)).toBeWithin(began - 1, Date.now() + 1);
      expect(await run("send")).toMatchObject({ status: 0, out: "accepted 0\nrefused 0\nwaiting 0\n" });
      expect(service.requests.length).toBe(2);
    });

    test.concurrent(`sends waiting events beside the heartbeats: ${language.name}`, async () => {
      using service = await startFakeService();
      const { run, start } = create(language, service.url);
      const seat = { machine_id: null, expires_at: null };
      service.on("/v1/machines/activate", () => ({ body: seat }));
      service.on("/v1/analytics/batch", countEvents());
      const { client, reading } = start("run");
      await until(() => service.to("/v1/machines/activate").length === 1, { limitMs: 60_000 });
      await run("log", "inference");
      await until(() => service.to("/v1/analytics/batch").length === 1, { limitMs: 60_000 });
      client.kill();
      await reading;
      expect(service.to("/v1/analytics/batch")[0]?.fields.events.length).toBe(1);
    });

    test.concurrent(`shows its commands after wrong usage: ${language.name}`, async () => {
      using service = await startFakeService();
      const { run } = create(language, service.url);
      for (const args of [
        ...[[], ["halp"], ["activate", "now"], ["borrow", "long"], ["log"], ["send", "all"]],
        ...[["download", "speller"], ["check", "license", "keys"], ["toString"], ["record"], ["open-bundle"]],
        ...[
          ["report", "file", "all"],
          ["report-again", "first", "file"],
        ],
      ]) {
        const { status, out, lines } = await run(...args);
        expect({ args, status, out }).toEqual({ args, status: 2, out: "" });
        const wrong = /^(Usage: |no command is given$|there is no command |\S+ (needs|takes) )/;
        expect(lines[0]).toMatch(wrong);
        expect(lines.slice(0, 2).join("\n")).toContain("Usage: claviger_client.");
        for (const command of [
          "activate",
          "give-back",
          "download NAME [VERSION] FOLDER",
          "check LICENSE KEYS",
          "open-bundle FILE",
        ])
          expect(lines.join("\n")).toContain(command);
      }
      expect(service.requests).toEqual([]);
    });

    test.concurrent(`helps whoever asks for help, and names an option that it does not know: ${language.name}`, async () => {
      const { run } = create(language, "", { LICENSE_KEY: "", LICENSE_STATE: "" });
      const whole = await run("--help");
      expect(whole).toEqual({ status: 0, out: expect.stringMatching(/^Usage: claviger_client/), lines: [] });
      for (const command of ["activate", "open-bundle FILE", "report-again NUMBER FILE", "LICENSE_STATE"])
        expect(whole.out).toContain(command);
      for (const args of [["-h"], ["help"]]) expect(await run(...args)).toEqual(whole);
      for (const args of [
        ["report", "file", "--help"],
        ["help", "report"],
      ])
        expect(await run(...args)).toEqual({
          ...{ status: 0, lines: [] },
          out: expect.stringMatching(
            /^Usage: \S+ report FILE \[--events\]\n {2}write a report of the use since the last one\n$/,
          ),
        });
      for (const args of [["--version"], ["report", "file", "--all"]]) {
        const option = args.at(-1);
        expect(await run(...args)).toEqual({
          ...{ status: 2, out: "" },
          lines: [
            expect.stringMatching(
              new RegExp(`^there is no option ${option}: claviger_client\\.\\w+ --help says what there is$`),
            ),
          ],
        });
      }
    });
  }

  for (const language of CHECKERS) {
    test.concurrent(`borrows a license for days, works with it without a network, and gives it back: ${language.name}`, async () => {
      using service = await startFakeService();
      const { run, read, stateFile, keys } = create(language, service.url);
      const license = signLicense({ machine_id: "mch_01a1fe1802a3718185e41c7c714fa538" });
      service.on("/v1/auth/license", () => licenseAnswer(license));
      const end = new Date(Date.now() + 604_800_000).toISOString().slice(0, 10);
      const out = `research until ${end}\nfeature streaming\nvalue channels 8\nvalue region "eu"\n`;
      expect((await run("status")).status).toBe(1);
      expect(await run("borrow", "7")).toEqual({ status: 0, out, lines: ["license: 200"] });
      expect(service.requests[0]?.fields).toEqual({ api_key: KEY, fingerprint: "workstation-7", days: 7 });
      expect(read("license")).toBe(`${license}\n`);
      expect(JSON.parse(read("license.terms"))).toMatchObject({
        ...{ owner: expect.stringMatching(/^[0-9a-f]{64}$/), key_id: KEY_ID, days: 7, borrowed: true },
        ...{ iat: expect.any(Number), jti: null },
      });
      for (const kind of ["license", "license.terms"])
        expect(statSync(`${stateFile}.${kind}`).mode & 0o777).toBe(0o600);
      const file = `${stateFile}.license`;
      expect(await run("check", file, keys, "svc", KEY_ID, "workstation-7")).toEqual({
        status: 0,
        out,
        lines: [],
      });
      // As for the programs that only checked licenses.
      expect(await run(file, keys, "svc", KEY_ID, "workstation-7")).toEqual({ status: 0, out, lines: [] });
      expect(await run("check", file, keys, "svc", KEY_ID)).toEqual({
        ...{ status: 1, out: "", lines: ["refused: the license is for another machine"] },
      });

      expect(await run("status")).toMatchObject({
        status: 0,
        out: expect.stringMatching(/^may work until \d/),
      });
      expect(await run("features")).toMatchObject({ status: 0, out: out.slice(out.indexOf("\n") + 1) });

      service.on("/v1/machines/release", () => refusedWith(404, "MACHINE_NOT_FOUND"));
      expect(await run("give-back")).toMatchObject({
        status: 0,
        out: expect.stringContaining(`taken until ${end}T`),
      });
      expect((await run("status")).status).toBe(1);
      expect(await run("features")).toMatchObject({
        ...{
          status: 1,
          out: "",
          lines: ["refused: there is no license: borrow one while there is a network"],
        },
      });
    });

    test.concurrent(`keeps no license that is not for it, and says why none came: ${language.name}`, async () => {
      using service = await startFakeService();
      const { run, stateFile } = create(language, service.url);
      service.on("/v1/auth/license", () => refusedWith(403, "OFFLINE_NOT_ALLOWED"));
      expect(await run("borrow")).toEqual({
        ...{ status: 1, out: "" },
        lines: ["license: 403 OFFLINE_NOT_ALLOWED", "refused: The sentence of OFFLINE_NOT_ALLOWED"],
      });
      expect(service.requests[0]?.fields).toEqual({ api_key: KEY, fingerprint: "workstation-7" });
      service.on("/v1/auth/license", () => licenseAnswer(signLicense({ fingerprint: "workstation-8" })));
      expect((await run("borrow")).lines.at(-1)).toBe("refused: the license is for another machine");
      service.on("/v1/auth/license", () => licenseAnswer("a.b.c"));
      expect((await run("borrow")).lines.at(-1)).toBe("refused: the license is not genuine");
      expect(readdirSync(join(stateFile, "..")).toSorted()).toEqual(["keys.json", "state"]);
      const unpinned = create(language, service.url, { LICENSE_KEYS: "" });
      expect(await unpinned.run("borrow")).toEqual({
        ...{
          status: 1,
          out: "",
          lines: [expect.stringMatching(/^refused: no keys are pinned: .*LICENSE_KEYS and LICENSE_AUDIENCE/)],
        },
      });
    });

    test.concurrent(`renews a borrowed license from half of its time on, also after its end: ${language.name}`, async () => {
      using service = await startFakeService();
      const { run, start, read, stateFile } = create(language, service.url);
      const now = Math.floor(Date.now() / 1_000);
      const old = signLicense({ refresh_after: now - 1 });
      const ended = signLicense({ iat: now - 9, nbf: now - 9, refresh_after: now - 5, exp: now - 1 });
      const renewed = signLicense();
      service.on("/v1/auth/license", inOrder(licenseAnswer(old), licenseAnswer(old), licenseAnswer(renewed)));
      const place = { body: { machine_id: null, expires_at: null } };
      for (const request of ["activate", "heartbeat"]) service.on(`/v1/machines/${request}`, () => place);
      expect((await run("borrow", "3")).status).toBe(0);
      for (const kept of [old, ended]) {
        writeFileSync(`${stateFile}.license`, kept);
        const asked = service.to("/v1/auth/license").length;
        const { client, reading } = start("run");
        await until(() => service.to("/v1/auth/license").length > asked, { limitMs: 60_000 });
        await until(() => read("license").trim() !== kept || kept === old, { limitMs: 60_000 });
        client.kill();
        await reading;
      }
      expect(read("license").trim()).toBe(renewed);
      expect(service.to("/v1/auth/license").map(({ fields }) => fields.days)).toEqual([3, 3, 3]);
    });

    test.concurrent(`works with an exported file, and for its key alone from then on: ${language.name}`, async () => {
      using service = await startFakeService();
      const { run, stateFile } = create(language, service.url);
      const write = (license: string) =>
        writeFileSync(
          `${stateFile}.license`,
          `-----BEGIN LICENSE-----\nFor: Ada\n\n${license.replaceAll(/.{64}/g, "$&\n")}\n-----END LICENSE-----\n`,
        );
      write(signLicense());
      expect((await run("status")).status).toBe(0);
      write(signLicense({ key_id: "key_other" }));
      expect((await run("status")).status).toBe(1);
      expect((await run("features")).lines).toEqual(["refused: the license is for another key"]);
      write(signLicense());
      expect((await run("status")).status).toBe(0);
      expect(service.requests).toEqual([]);
    });

    test.concurrent(`records its use and reports it, without a network, an address or an API key: ${language.name}`, async () => {
      const { run, home, read, stateFile } = create(language, "", OFFLINE);
      const [first = "", second = "", again = ""] = ["first", "second", "again"].map((name) =>
        join(home, name),
      );
      const noLicense = `refused: ${SENTENCES.license_missing}`;
      expect(await lastOf(run("record", "inference"))).toBe(noLicense);
      for (const command of ["status", "features"])
        expect(await run(command)).toMatchObject({ status: 1, lines: [noLicense] });
      writeFileSync(`${stateFile}.license`, signLicense());
      expect(await lastOf(run("report", first))).toBe(
        "refused: this license has no key for reports: ask the vendor for a file with --fingerprint",
      );
      writeFileSync(`${stateFile}.license`, signLicense({ sub: LICENSE_ID, report: REPORT }));
      const nothing = { status: 0, out: "", lines: ["report: nothing is new since report 0"] };
      expect(await run("report", first)).toEqual(nothing);
      const recorded = await run("record", "inference", "speller");
      const key = expect.stringMatching(/^[0-9a-f]{32}\n$/);
      expect(recorded).toEqual({ status: 0, out: key, lines: [] });
      for (const type of ["error", "inference"]) expect((await run("record", type)).status).toBe(0);
      expect((await run("record", "shutdown")).status).toBe(1);
      for (const kind of ["journal", "journal.head"])
        expect(statSync(`${stateFile}.${kind}`).mode & 0o777).toBe(0o600);
      // A crash came between the making of a lock and the writing of its name.
      writeAged(`${stateFile}.journal.lock`, 10);
      expect(await run("report", first)).toEqual({
        ...{ status: 0, out: "1\n", lines: ["report: 3 uses in report 1, 0 waiting"] },
      });
      expect(read("journal")).toBe("");
      const { journal, day, ...one } = readReport(first);
      const row = { day, event_type: "inference", model_name: null, count: 1, failed: 0 };
      const clients = [expect.stringMatching(/^(python|typescript) \d+\.\d+\.\d+$/)];
      const made_at = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]{8}Z$/);
      const same = { version: 1, license_id: LICENSE_ID, machine: REPORT.machine, made_at, clients };
      expect(one.fields).toEqual({
        ...{ ...same, journal, number: 1, previous: null },
        days: [{ ...row, event_type: "error", failed: 1 }, row, { ...row, model_name: "speller" }],
      });
      const kept = statSync(join(`${stateFile}.reports`, "000001.report"));
      expect(kept.mode & 0o777).toBe(0o600);

      // With each event, after the end of the license.
      expect((await run("record", "inference", "speller")).status).toBe(0);
      const now = Math.floor(Date.now() / 1_000);
      const ended = { iat: now - 600, nbf: now - 600, exp: now - 1 };
      writeFileSync(`${stateFile}.license`, signLicense({ sub: LICENSE_ID, report: REPORT, ...ended }));
      const state = () => JSON.parse(readFileSync(stateFile, "utf8"));
      writeFileSync(stateFile, JSON.stringify({ ...state(), seen: now - 3_600 }));
      expect(await run("status")).toMatchObject({ status: 1, lines: [`refused: ${SENTENCES.expired}`] });
      // The time is kept also then, so that the clock cannot be set back to a time before the end.
      expect(state().seen).toBeWithin(now, now + 3_600);
      const event = JSON.parse(read("journal"));
      expect(event).toEqual({
        ...{ idempotency_key: expect.stringMatching(/^[0-9a-f]{32}$/), event_type: "inference" },
        ...{ occurred_at: expect.stringMatching(/^[\dT:-]{19}\.\d{3}Z$/), model_name: "speller" },
      });
      // A file that is there stays, and nothing is reported.
      expect(await run("report", first)).toEqual({
        ...{ status: 1, out: "" },
        lines: [`refused: there is a file ${first} already: name another one, or move it away`],
      });
      expect((await run("report", "--events", second)).out).toBe("2\n");
      expect(readReport(second).fields).toEqual({
        ...{ ...same, journal, number: 2, previous: one.digest, events: [event] },
        days: [{ ...row, day: event.occurred_at.slice(0, 10), model_name: "speller" }],
      });
      expect(await run("report", second)).toMatchObject({
        ...{ status: 0, out: "", lines: ["report: nothing is new since report 2"] },
      });
      expect(await run("report-again", "1", again)).toEqual({ status: 0, out: "", lines: [] });
      expect(readFileSync(again, "utf8")).toBe(readFileSync(first, "utf8"));
      expect(await lastOf(run("report-again", "3", again))).toBe("refused: there is no report 3");
      expect(await lastOf(run("report", join(home, "missing", "file")))).toBe(
        `refused: there is no folder ${join(home, "missing")}: create it`,
      );
    });

    test.skipIf(process.getuid?.() !== 0)(
      `makes no files as root in the folder of another user: ${language.name}`,
      async () => {
        const { run, home, stateFile } = create(language, "", OFFLINE);
        const bundle = join(home, "bundle.tar");
        writeFileSync(bundle, makeBundle());
        const list = () => readdirSync(home, { recursive: true }).toSorted();
        chownSync(home, 65_534, 65_534);
        const why = (path: string) =>
          `refused: ${path} belongs to user nobody, who could not read what root writes: run this as that user`;
        for (const args of [["status"], ["open-bundle", bundle], ["record", "inference"]]) {
          expect(await run(...args)).toEqual({ status: 1, out: "", lines: [why(home)] });
          expect(list()).toEqual(["bundle.tar", "keys.json"]);
        }
        chownSync(home, 0, 0);
        mkdirSync(join(home, "models"));
        chownSync(join(home, "models"), 65_534, 65_534);
        expect(await lastOf(run("open-bundle", bundle, join(home, "models")))).toBe(
          why(join(home, "models")),
        );
        expect((await run("open-bundle", bundle)).status).toBe(0);
        chownSync(stateFile, 65_534, 65_534);
        expect(await lastOf(run("status"))).toBe(why(stateFile));
      },
    );

    test.concurrent(`opens a bundle, and nothing of one that is not for it: ${language.name}`, async () => {
      const { run, home, read, stateFile } = create(language, "", OFFLINE);
      const [models = "", files = ""] = ["models", "files"].map((name) => join(home, name));
      mkdirSync(models);
      mkdirSync(files);
      const open = (bundle: Uint8Array, ...folders: readonly string[]) => {
        writeFileSync(join(home, "bundle.tar"), bundle);
        return run("open-bundle", join(home, "bundle.tar"), ...folders);
      };
      const now = Math.floor(Date.now() / 1_000);
      const contents = { models: { speller: "a model" }, files: { "core-2.tar.gz": "core", empty: "" } };
      const bundle = makeBundle({ ...contents, license: { iat: now - 10, nbf: now - 10 } });
      const altered = Buffer.from(bundle);
      altered[bundle.indexOf("a model")] = 65;
      for (const [wrong, why] of [
        [altered, "the bundle is not genuine: models/speller-1.0.0.onnx is not what its manifest says"],
        [Buffer.concat([bundle, Buffer.alloc(512)]), "the bundle is not genuine: something follows its end"],
        [makeBundle({ ...contents, license: { aud: "other" } }), "the license is for another product"],
        [
          makeBundle({ ...contents, license: { fingerprint: "workstation-8" } }),
          "the license is for another machine",
        ],
        [makeBundle({ ...contents, license: { iat: now + 900 } }), SENTENCES.clock_behind],
        [makeBundle({ ...contents, license: { exp: now } }), SENTENCES.expired],
      ] as const) {
        const { status, out, lines } = await open(wrong, models, files);
        expect({ status, out, lines }).toEqual({ status: 1, out: "", lines: [`refused: ${why}`] });
        expect([readdirSync(models), readdirSync(files)]).toEqual([[], []]);
        expect(readdirSync(home).toSorted()).toEqual(["bundle.tar", "files", "keys.json", "models", "state"]);
      }
      // Of a crash: one is old, and the other may belong to a process that is at work.
      const left = join(models, "speller-1.0.0.onnx.");
      writeAged(`${left}${"0".repeat(16)}`, 7_200);
      writeAged(`${left}${crypto.randomUUID()}`, 7_200);
      writeAged(`${left}${"1".repeat(16)}`, 60);
      const opened = await open(bundle, models, files);
      expect(readdirSync(models).toSorted()).toEqual([
        "speller-1.0.0.onnx",
        `speller-1.0.0.onnx.${"1".repeat(16)}`,
      ]);
      const paths = [
        `model ${join(models, "speller-1.0.0.onnx")}`,
        `file ${join(files, "core-2.tar.gz")}`,
        `file ${join(files, "empty")}`,
      ];
      expect({ ...opened, out: opened.out.split("\n").slice(1) }).toEqual({
        ...{ status: 0, lines: [] },
        out: ["feature streaming", "value channels 8", 'value region "eu"', ...paths, ""],
      });
      expect(readFileSync(join(models, "speller-1.0.0.onnx"), "utf8")).toBe("a model");
      expect(readFileSync(join(files, "core-2.tar.gz"), "utf8")).toBe("core");
      expect(readdirSync(home).filter((name) => !name.startsWith("state")).length).toBe(4);
      expect(JSON.parse(read("license.terms"))).toMatchObject({ days: null, borrowed: false, iat: now - 10 });
      expect((await run("status")).status).toBe(0);

      const older = makeBundle({ license: { iat: now - 11, nbf: now - 11 } });
      expect(await lastOf(open(older))).toBe("refused: this bundle is older than the license that is there");
      // A clock that was a year ahead: the bundle that was opened already does not help, a newer one does.
      const ahead = { ...JSON.parse(readFileSync(stateFile, "utf8")), seen: now + 31_536_000 };
      writeFileSync(stateFile, JSON.stringify(ahead));
      const behind = `refused: ${SENTENCES.clock_behind}`;
      expect(await run("status")).toMatchObject({ status: 1, lines: [behind] });
      expect(await lastOf(open(bundle, models, files))).toBe(behind);
      // No clock makes an older one right.
      expect(await lastOf(open(older))).toBe("refused: this bundle is older than the license that is there");
      expect((await open(makeBundle({ license: { iat: now - 9, nbf: now - 9 } }))).status).toBe(0);
      expect((await run("status")).status).toBe(0);
      expect(await lastOf(open(bundle, join(home, "none")))).toBe(
        `refused: there is no folder ${join(home, "none")}: create it`,
      );

      // An exported license comes without models.
      const openExported = (iat: number, alter = (license: string) => license) => {
        const license = alter(signLicense({ iat, nbf: iat, jti: crypto.randomUUID() }));
        return open(
          Buffer.from(`-----BEGIN LICENSE-----\nCustomer: x\n\n${license}\n-----END LICENSE-----\n`),
        );
      };
      expect(await openExported(now - 5)).toMatchObject({ status: 0, lines: [] });
      expect(JSON.parse(read("license.terms"))).toMatchObject({ iat: now - 5 });
      for (const [iat, why, alter] of [
        [now - 60, "this bundle is older than the license that is there", undefined],
        [now - 2, "the license is not genuine", (license: string) => `${license.slice(0, -4)}AAAA`],
      ] as const) {
        const { status, lines } = await openExported(iat, alter);
        expect({ status, lines }).toEqual({ status: 1, lines: [`refused: ${why}`] });
        expect(JSON.parse(read("license.terms"))).toMatchObject({ iat: now - 5 });
      }
    });
  }
});
