/** The module of the page `sdk` in TypeScript, imported: it decides as the test vectors say, and survives what can fail. */
import { describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { Client, type ClientOptions, type Event, Refused } from "../../src/cli/guide/sdk/claviger_client.ts";
import licenses from "../../src/cli/guide/sdk/license_vectors.json" with { type: "json" };
import vectors from "../../src/cli/guide/sdk/vectors.json" with { type: "json" };
import { until } from "../support/until.ts";
import { useFolder } from "../support/use_folder.ts";
import {
  countEvents,
  type FakeService,
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
import { createInstaller, LANGUAGES } from "./sdk_languages.ts";

const folder = useFolder();
const NOBODY = "http://127.0.0.1:1";
const KEY = `svc_live_${"0123456789abcdef".repeat(3)}`;
const OTHER_KEY = KEY.replace("live", "test");

function create(service: FakeService | undefined, more: Partial<ClientOptions> = {}) {
  const stateFile = join(mkdtempSync(join(folder, "home-")), "state");
  const lines: string[] = [];
  const options = {
    ...{ url: service?.url ?? NOBODY, apiKey: KEY, stateFile, fingerprint: "workstation-7" },
    ...{ keys: PINNED_KEYS, audience: "svc", log: (line: string) => void lines.push(line), ...more },
  };
  const client = new Client(options);
  const file = (kind: string) => `${options.stateFile}.${kind}`;
  return { client, lines, file, options, again: () => new Client(options) };
}

describe.each(LANGUAGES.filter(({ module }) => module.endsWith(".ts")))(
  "the rules of the client: $name",
  ({ command }) => {
    test("decide as the vectors say", () => {
      const { stdout, stderr } = Bun.spawnSync([
        ...command,
        join(import.meta.dir, "sdk_typescript_vectors.ts"),
      ]);
      expect({ err: stderr.toString(), ...JSON.parse(stdout.toString()) }).toMatchObject({
        wrong: [],
        err: "",
      });
      const { validations, batches, downloads, reports, clocks, sentences, bundles } = vectors;
      const pure = [validations, batches, downloads, reports, clocks, sentences];
      const cases = [...pure, bundles.cases, licenses.cases];
      expect(JSON.parse(stdout.toString()).checked).toBe(cases.reduce((sum, { length }) => sum + length, 0));
    });
  },
);

describe.each(LANGUAGES.filter(({ module }) => module.endsWith(".ts")))(
  "the module as a program: $name",
  (language) => {
    const install = createInstaller(folder, KEY);
    const start = (url: string, more = {}) => {
      const stateFile = join(mkdtempSync(join(folder, "home-")), "state");
      const client = install(language, url, { LICENSE_STATE: stateFile, ...more });
      const run = (...args: readonly string[]) => client.runArguments([language.module, ...args]);
      return { run, stateFile };
    };

    test("can be loaded by require", async () => {
      const { runArguments } = install(language, NOBODY);
      const program = join(folder, "program.cjs");
      writeFileSync(program, `console.log(typeof require(${JSON.stringify(language.module)}).Client)`);
      expect(await runArguments([program])).toMatchObject({ status: 0, out: "function\n" });
    });

    test("does not crash when nobody reads its output any more", async () => {
      using service = await startFakeService();
      const many = Array.from({ length: 2_000 }, (_, index) =>
        modelOf(`model-${index}`, service.url, new Uint8Array()),
      );
      service.on("/v1/models/list", () => listOf(...many));
      const { stateFile } = start(service.url);
      const command = [...language.command, language.module, "models"].join(" ");
      const script = `set -o pipefail; ${command} | head -n 1; echo "\${PIPESTATUS[0]}"`;
      const { stdout, stderr } = Bun.spawn(["bash", "-c", script], {
        env: { ...process.env, LICENSE_URL: service.url, LICENSE_KEY: KEY, LICENSE_STATE: stateFile },
        stdout: "pipe",
        stderr: "pipe",
      });
      const line = expect.stringMatching(/^model-0 1\.0\.0 sha256:\w+\n0\n$/);
      expect({ out: await stdout.text(), err: await stderr.text() }).toEqual({
        ...{ out: line, err: "models: 200\n" },
      });
    });

    test("says what is wrong with a command and its settings", async () => {
      const { run } = start(NOBODY);
      for (const [args, why] of [
        [[], "no command is given"],
        [["toString"], "there is no command toString"],
        [["activate", "now"], "activate takes no arguments"],
        [["download", "speller"], "download needs NAME and FOLDER"],
        [["check", "a"], "check needs LICENSE, KEYS, AUDIENCE and KEY_ID"],
        [["borrow", "long"], "borrow takes [DAYS]"],
        [["log"], "log needs TYPE"],
        [["open-bundle", "a", "b", "c", "d"], "open-bundle takes FILE [MODELS_FOLDER [FILES_FOLDER]]"],
      ] as const) {
        const { status, lines } = await run(...args);
        expect({ status, lines: lines.slice(0, 2) }).toEqual({
          ...{ status: 2, lines: [why, "Usage: claviger_client.ts COMMAND"] },
        });
      }
      for (const name of ["LICENSE_STATE", "LICENSE_KEY", "LICENSE_URL"]) {
        const { status, lines } = await start(NOBODY, { [name]: "" }).run("activate");
        expect({ status, why: lines[0] }).toEqual({ status: 2, why: `${name} is not set` });
      }
      for (const [name, value] of [
        ["LICENSE_KEY", "svc_live_1"],
        ["LICENSE_FINGERPRINT", "short"],
      ] as const) {
        const { status, lines } = await start(NOBODY, { [name]: value }).run("status");
        expect({ status, lines }).toEqual({
          status: 2,
          lines: [expect.stringContaining(`Wrong ${name}: the `)],
        });
      }
      expect(await run("features")).toMatchObject({
        ...{ status: 1, lines: ["refused: no answer is kept: run validate"] },
      });
    });

    test("says at the end that it gave up", async () => {
      using service = await startFakeService();
      const busy = refusedWith(503, "SERVICE_UNAVAILABLE", { "Retry-After": "1" });
      for (const path of ["machines/activate", "models/list", "analytics/batch"])
        service.on(`/v1/${path}`, () => busy);
      const ended = await Promise.all(
        ["activate", "models", "send"].map(async (command) => {
          const { run } = start(service.url);
          if (command === "send") await run("log", "inference");
          const { status, lines } = await run(command);
          return { status, last: lines.at(-1) };
        }),
      );
      const last = "gave up after four requests: 503 SERVICE_UNAVAILABLE";
      expect(ended).toEqual(ended.map(() => ({ status: 1, last })));
    });
  },
);

describe("new Client()", () => {
  test("says what is wrong with the address, the folder and the keys", () => {
    for (const [more, why] of [
      ...[
        ...["licenses.example.org", "ftp://host", "http://", "http://h:0", "https://h:65536", "http://h:x"],
        ...[
          "http://h/v1",
          "http://h?",
          "http://h#",
          "http://ada:secret@h",
          "http://h ",
          "http://[::1",
          "http://h//",
        ],
      ].map(
        (url) =>
          [
            { url },
            "the address of the service must be http://HOST or https://HOST, perhaps with :PORT, and without a path",
          ] as const,
      ),
      ...["svc_live_1", `${KEY}0`, KEY.toUpperCase(), ` ${KEY}`, KEY.replace("live", "prod"), `${KEY}\n`].map(
        (apiKey) =>
          [
            { apiKey },
            "the API key must be letters and digits, _live_ or _test_, and 48 lowercase hex digits",
          ] as const,
      ),
      ...["seven77", "x".repeat(201), "workstation-é", "workstation\n7"].map(
        (fingerprint) =>
          [{ fingerprint }, "the fingerprint must be 8 to 200 printable ASCII characters"] as const,
      ),
      [
        { stateFile: join(folder, "missing", "state") },
        `there is no folder ${join(folder, "missing")}, so create it`,
      ],
      [
        { keys: join(folder, "missing.json") },
        `cannot read the pinned keys ${join(folder, "missing.json")}: no such file; \`claviger licenses public-keys\` prints them`,
      ],
      [{ keys: { keys: "x" } as object as { keys: [] } }, "keys is not a JWK set"],
    ] as const)
      expect(() => create(undefined, more)).toThrow(why);
  });

  test("takes every plain address", () => {
    for (const url of [
      "HTTP://h",
      "https://licenses.example.org:65535/",
      "http://[::1]:8080",
      "http://a_b-c",
    ])
      expect(() => create(undefined, { url })).not.toThrow();
  });

  test("takes damaged files for none, and keeps foreign fields out of the state", async () => {
    using service = await startFakeService();
    const { client, file, options, again } = create(service);
    service.on("/v1/auth/validate", () => ({ body: VALID }));
    service.on("/v1/auth/license", () => licenseAnswer(signLicense()));
    await client.validate();
    await client.borrow(3);
    client.logEvent("inference");
    const state = JSON.parse(readFileSync(options.stateFile, "utf8"));
    writeFileSync(options.stateFile, JSON.stringify({ ...state, more: 1 }));
    expect(again().state).toEqual(state);
    for (const damage of [
      "",
      "{",
      "null",
      "[]",
      '{"owner":1,"until":"x","body":{"features":1}}',
      "\u0000\u00ff".repeat(99),
      "[".repeat(70_000),
    ]) {
      for (const kind of ["validated", "license", "license.terms", "events"])
        writeFileSync(file(kind), damage);
      const damaged = again();
      expect({
        damage,
        answer: damaged.licenseAnswer(),
        features: damaged.features(),
        values: damaged.entitlements(),
      }).toEqual({
        ...{ damage, answer: null, features: [], values: {} },
      });
      expect(damaged.mayWork()).toBe(false);
      expect(() => damaged.claims()).toThrow(Refused);
      expect(await damaged.sendEvents()).toEqual({ accepted: 0, refused: 0, waiting: 0 });
    }
    writeFileSync(options.stateFile, "{");
    expect(again().state).toMatchObject({ until: 0, machine_id: null });
  });

  test("logs nowhere unless told, and says why there was no answer", async () => {
    using service = await startFakeService();
    const silent = create(service, { log: undefined });
    expect(await silent.client.validate()).toBeNull();
    expect(silent.client.cause).toBe("connection closed");
    for (const [url, cause] of [
      [NOBODY, "connection refused"],
      [service.url.replace("http:", "https:"), "TLS: wrong version number: is the service without TLS?"],
    ] as const) {
      const { client, lines } = create(undefined, { url });
      expect(await client.validate()).toBeNull();
      expect({ url, cause: client.cause }).toEqual({ url, cause: expect.stringContaining(cause) });
      expect(lines).toEqual([`validate: no answer: ${client.cause}`]);
    }
    service.on("/v1/auth/validate", () => ({ body: VALID }));
    await silent.client.validate();
    expect(silent.client.cause).toBe("");
  });

  test("reads no more of an answer than allowed", async () => {
    using service = await startFakeService();
    const { client, lines } = create(service);
    service.on("/v1/auth/validate", () => ({ body: { ...VALID, name: "x".repeat(70_000) } }));
    expect(await client.validate()).toBeNull();
    expect(lines).toEqual(["validate: no answer (200)"]);
  });
});

describe("licenses", () => {
  test("an answer is fresh for an hour, and is for this key and machine alone", async () => {
    using service = await startFakeService();
    const { client, file, options, again } = create(service);
    service.on("/v1/auth/validate", () => ({ body: VALID }));
    expect(await client.validate()).toEqual(VALID);
    expect({ fresh: client.isFresh(), answer: client.licenseAnswer() }).toEqual({
      fresh: true,
      answer: VALID,
    });
    expect(client.features()).toEqual(VALID.features);
    const saved = JSON.parse(readFileSync(file("validated"), "utf8"));
    writeFileSync(file("validated"), JSON.stringify({ ...saved, fetched_at: saved.fetched_at - 3_600 }));
    expect({ fresh: again().isFresh(), answer: again().licenseAnswer() }).toEqual({
      fresh: false,
      answer: VALID,
    });
    expect(new Client({ ...options, apiKey: OTHER_KEY }).licenseAnswer()).toBeNull();
    expect(new Client({ ...options, fingerprint: "workstation-8" }).licenseAnswer()).toBeNull();
  });

  test("a license is for its key and machine alone, and its features come after those of an answer", async () => {
    using service = await startFakeService();
    const { client, options, again } = create(service);
    service.on("/v1/auth/license", () => licenseAnswer(signLicense()));
    expect(await client.borrow()).toMatchObject({ key_id: KEY_ID });
    expect({ works: again().mayWork(), features: again().features() }).toEqual({
      works: true,
      features: ["streaming"],
    });
    expect(client.entitlements()).toEqual({ channels: 8, region: "eu" });
    service.on("/v1/auth/validate", () => ({ body: VALID }));
    await client.validate();
    expect(client.entitlements()).toEqual(VALID.entitlements);
    expect(client.features()).toEqual(VALID.features);
    const other = new Client({ ...options, apiKey: OTHER_KEY });
    expect(other.mayWork()).toBe(false);
    expect(() => other.claims()).toThrow("the license is for another key");
    const { state } = new Client({ ...options, audience: "other" });
    expect(state.owner).toBe(again().state.owner === state.owner ? state.owner : "");
    expect(() => new Client({ ...options, audience: "other" }).claims()).toThrow("another product");
  });

  test("a clock that was once in the future does not spoil a new license", async () => {
    using service = await startFakeService();
    const { options } = create(service);
    const state = JSON.parse(readFileSync(options.stateFile, "utf8"));
    const now = Math.floor(Date.now() / 1_000);
    writeFileSync(options.stateFile, JSON.stringify({ ...state, seen: now + 86_400 * 365 }));
    const client = new Client(options);
    service.on("/v1/auth/license", () => licenseAnswer(signLicense()));
    await client.borrow();
    expect({ works: client.mayWork(), seen: client.state.seen - now < 60 }).toEqual({
      works: true,
      seen: true,
    });
    writeFileSync(options.stateFile, JSON.stringify({ ...state, seen: now + 3_600 }));
    expect(() => new Client(options).claims()).toThrow(
      "the clock is behind: correct it, go online, or open a newer license",
    );
  });

  test("a license without an end is none, and its use without a network keeps the time", async () => {
    using service = await startFakeService();
    const { client, options, file } = create(service);
    for (const claim of ["iat", "nbf", "exp", "features"]) {
      service.on("/v1/auth/license", () => licenseAnswer(signLicense({ [claim]: undefined })));
      await expect(client.borrow()).rejects.toThrow("the license is not genuine");
    }
    const now = Math.floor(Date.now() / 1_000);
    const state = JSON.parse(readFileSync(options.stateFile, "utf8"));
    writeFileSync(options.stateFile, JSON.stringify({ ...state, seen: now - 3_600 }));
    writeFileSync(file("license"), signLicense());
    const offline = new Client(options);
    expect(offline.mayWork()).toBe(true);
    expect(JSON.parse(readFileSync(options.stateFile, "utf8")).seen).toBeWithin(now, now + 60);
    // The license counts no machines, so no place is taken.
    service.on("/v1/machines/release", () => ({ body: { released: true, machine_id: null } }));
    expect({ end: await offline.giveBack(), works: offline.mayWork() }).toEqual({ end: null, works: false });
  });

  test("a refusal has the sentence and the code of the service", async () => {
    using service = await startFakeService();
    const { client } = create(service);
    service.on("/v1/auth/license", () => refusedWith(404, "MACHINE_NOT_FOUND"));
    const refusal = await client.borrow(3).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(Refused);
    expect(refusal).toMatchObject({
      message: "The sentence of MACHINE_NOT_FOUND",
      code: "MACHINE_NOT_FOUND",
    });
    service.on("/v1/models/list", () => refusedWith(401, "INVALID_KEY"));
    await expect(client.models()).rejects.toThrow("The sentence of INVALID_KEY");
  });
});

describe("places", () => {
  const place = { body: { machine_id: null, expires_at: null } };

  test("a call begins its waits at a second, whatever failed before", async () => {
    using service = await startFakeService();
    const { options, lines } = create(service);
    const state = JSON.parse(readFileSync(options.stateFile, "utf8"));
    writeFileSync(options.stateFile, JSON.stringify({ ...state, failures: 9 }));
    service.on("/v1/machines/activate", inOrder("close", place));
    expect(await new Client(options).activate()).toBe(true);
    expect(lines[0]).toEndWith("; may not work; activate in 1 s");
  });

  test("the loop waits after an activation of the last minute, and not after another one", async () => {
    using service = await startFakeService();
    const { client, lines, again } = create(service);
    service.on("/v1/machines/activate", () => place);
    service.on("/v1/machines/heartbeat", () => place);
    service.on("/v1/machines/release", () => ({ body: { released: true, machine_id: null } }));
    await client.activate();
    const stopping = new AbortController();
    const running = client.run(stopping.signal);
    await Bun.sleep(300);
    expect(service.requests.length).toBe(1);
    stopping.abort();
    await running;
    expect(service.requests.length).toBe(1);
    for (const other of [again(), client]) {
      if (other === client) await client.release();
      const ending = new AbortController();
      const count = service.requests.length;
      const loop = other.run(ending.signal);
      await until(() => service.requests.length > count);
      ending.abort();
      await loop;
    }
    expect(lines.map((line) => line.split(":")[0])).toEqual(["activate", "heartbeat", "release", "activate"]);
  });

  test("the loop asks validate again when the kept answer is not fresh, at most once an hour", async () => {
    using service = await startFakeService();
    const { client, file, again } = create(service);
    service.on("/v1/machines/activate", () => place);
    service.on("/v1/machines/heartbeat", () => place);
    service.on("/v1/auth/validate", () => ({ body: VALID }));
    // Who has just activated does not send a heartbeat at once.
    const runOnce = async (running: Client, isDone: () => boolean) => {
      const stopping = new AbortController();
      const ended = running.run(stopping.signal);
      await until(isDone);
      await Bun.sleep(100);
      stopping.abort();
      await ended;
    };
    // Nobody asked validate here.
    await runOnce(client, () => service.requests.length === 1);
    await client.validate();
    await runOnce(again(), () => service.to("/v1/machines/heartbeat").length === 1);
    expect(service.to("/v1/auth/validate").length).toBe(1);
    const saved = JSON.parse(readFileSync(file("validated"), "utf8"));
    const old = { ...saved, fetched_at: saved.fetched_at - 3_600, until: saved.fetched_at - 1 };
    writeFileSync(file("validated"), JSON.stringify(old));
    const late = again();
    expect(late.licenseAnswer()).toBeNull();
    service.on("/v1/auth/validate", () => "close");
    await runOnce(late, () => service.to("/v1/auth/validate").length === 2);
    await runOnce(late, () => service.to("/v1/machines/heartbeat").length === 3);
    expect(service.to("/v1/auth/validate").length).toBe(2);
    service.on("/v1/auth/validate", () => ({ body: VALID }));
    const renewed = again();
    await runOnce(renewed, () => service.to("/v1/auth/validate").length === 3);
    expect({ fresh: renewed.isFresh(), features: renewed.features() }).toEqual({
      ...{ fresh: true, features: VALID.features },
    });
  });

  test("a month that is used up takes no features away, and those of refresh are kept", async () => {
    using service = await startFakeService();
    const { client, lines, again } = create(service);
    service.on("/v1/auth/validate", () => refusedWith(429, "QUOTA_EXCEEDED"));
    service.on("/v1/auth/refresh", () => ({ body: VALID }));
    const refusal = { error: "The sentence of QUOTA_EXCEEDED", code: "QUOTA_EXCEEDED" };
    expect(await client.validate()).toEqual(refusal);
    expect(again().features()).toEqual(VALID.features);
    expect({ fresh: client.isFresh(), lines }).toEqual({
      ...{ fresh: true, lines: ["validate: 429 QUOTA_EXCEEDED", "refresh: 200"] },
    });
    expect(service.to("/v1/auth/refresh")[0]?.fields).toEqual({ api_key: KEY });
    service.on("/v1/auth/refresh", () => "close");
    await client.validate();
    expect(again().features()).toEqual(VALID.features);
    service.on("/v1/auth/refresh", () => refusedWith(401, "INVALID_KEY"));
    await client.validate();
    expect(again().features()).toEqual([]);
    service.on("/v1/auth/validate", () => refusedWith(429, "RATE_LIMIT_EXCEEDED"));
    await client.validate();
    expect(service.to("/v1/auth/refresh").length).toBe(3);
  });

  test("a key that is refused takes the borrowed license away, and no file that somebody put there", async () => {
    using service = await startFakeService();
    const { client, file, lines } = create(service);
    service.on("/v1/auth/license", () => licenseAnswer(signLicense()));
    service.on("/v1/machines/activate", () => refusedWith(401, "INVALID_KEY"));
    await client.borrow(3);
    expect(client.mayWork()).toBe(true);
    expect(await client.activate()).toBe(false);
    expect({ works: client.mayWork(), isThere: existsSync(file("license")) }).toEqual({
      ...{ works: false, isThere: false },
    });
    expect(lines).toContain("license: deleted, because the service refuses the key");
    const now = Math.floor(Date.now() / 1_000);
    for (const license of [
      signLicense({ iat: now + 5, jti: "a" }),
      signLicense({ iat: now - 5, jti: "b" }),
    ]) {
      await client.borrow(3);
      writeFileSync(file("license"), license);
      expect(await client.activate()).toBe(true);
      expect(readFileSync(file("license"), "utf8")).toBe(license);
    }
  });

  test("a place that the service did not take back keeps its license, and the latest end of all is named", async () => {
    using service = await startFakeService();
    const { client, file, again } = create(service);
    const end = Math.floor(Date.now() / 1_000) + 900_000;
    const machine_id = "mch_01a1fe1802a3718185e41c7c714fa538";
    service.on("/v1/auth/license", () => licenseAnswer(signLicense({ machine_id, exp: end })));
    await client.borrow();
    service.on("/v1/auth/license", () => licenseAnswer(signLicense({ machine_id })));
    await client.borrow();
    service.on("/v1/machines/release", () => refusedWith(401, "INVALID_KEY"));
    const refusal = await client.giveBack().catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(Refused);
    expect(refusal).toMatchObject({
      ...{ code: "INVALID_KEY" },
      message: "the place was not given back, and the license stays: The sentence of INVALID_KEY",
    });
    expect({ works: client.mayWork(), isThere: existsSync(file("license")) }).toEqual({
      ...{ works: true, isThere: true },
    });
    service.on("/v1/machines/release", () => ({ body: { released: true, machine_id } }));
    const later = again();
    expect({ end: await later.giveBack(), works: later.mayWork() }).toEqual({ end, works: false });
    service.on("/v1/machines/release", () => refusedWith(404, "MACHINE_NOT_FOUND"));
    expect(await again().giveBack()).toBe(end);
  });

  test("why() says what is wrong for people", async () => {
    using service = await startFakeService();
    const { client, options, again } = create(service);
    const why = (of: Client) => {
      const { message, code } = of.why() ?? {};
      return { message, code };
    };
    expect(why(client)).toEqual({ message: "this machine has no place: activate it", code: "" });
    for (const [code, status, more] of [
      ["MACHINE_LIMIT_REACHED", 409, ": close the program on another machine, or ask your administrator"],
      ["INVALID_KEY", 401, ": ask the vendor for a new key"],
      ["KEY_EXPIRED", 401, ": ask the vendor for a new key"],
      ["LICENSE_SUSPENDED", 403, ""],
    ] as const) {
      service.on("/v1/machines/activate", () => refusedWith(status, code));
      await client.activate();
      expect(why(client)).toEqual({ message: `The sentence of ${code}${more}`, code });
    }
    service.on("/v1/machines/activate", () => "close");
    const lost = again();
    const stopping = new AbortController();
    const running = lost.run(stopping.signal);
    await until(() => lost.cause !== "" && lost.why()?.message !== "this machine has no place: activate it");
    stopping.abort();
    await running;
    expect(why(lost)).toEqual({
      ...{ message: "the license service gives no answer: connection closed", code: "" },
    });
    const state = JSON.parse(readFileSync(options.stateFile, "utf8"));
    writeFileSync(options.stateFile, JSON.stringify({ ...state, seen: state.seen + 3_600 }));
    expect(why(again())).toEqual({
      ...{ message: "the clock is behind: correct it, go online, or open a newer license", code: "" },
    });
    service.on("/v1/machines/activate", () => place);
    expect(await client.activate()).toBe(true);
    expect(client.why()).toBeNull();
  });

  test("describe() names the later end of the place and the license", async () => {
    using service = await startFakeService();
    const { client } = create(service);
    const now = Math.floor(Date.now() / 1_000);
    const toTime = (seconds: number) => new Date(seconds * 1_000).toISOString().replace(".000", "");
    const seat = (seconds: number) => ({ body: { machine_id: null, expires_at: toTime(now + seconds) } });
    service.on("/v1/machines/activate", inOrder(seat(600), seat(90_000)));
    service.on("/v1/auth/license", () => licenseAnswer(signLicense({ exp: now + 9_000 })));
    await client.activate();
    await client.borrow();
    expect(client.describe()).toBe(`may work until ${toTime(now + 9_000)}`);
    await client.activate();
    expect(client.describe() > `may work until ${toTime(now + 89_000)}`).toBe(true);
  });

  test("a license for another audience is refused with both names", async () => {
    using service = await startFakeService();
    const { client } = create(service);
    service.on("/v1/auth/license", () => licenseAnswer(signLicense({ aud: "other" })));
    await expect(client.borrow()).rejects.toThrow("LICENSE_AUDIENCE is svc, and the license is for other");
  });
});

describe("download()", () => {
  const bytes = crypto.getRandomValues(new Uint8Array(3_000_000));

  test("returns an earlier file without a network, if it is whole and the program may work", async () => {
    using service = await startFakeService();
    const { client, options } = create(service);
    const home = mkdtempSync(join(folder, "models-"));
    const path = join(home, "speller-1.0.0.onnx");
    const model = modelOf("speller", service.url, bytes);
    service.on("/v1/models/list", () => listOf(model));
    service.on("/file/speller.onnx", serveFile(bytes, '"tag"'));
    expect(await client.download("speller", { folder: relative(process.cwd(), home) })).toBe(path);
    expect(readFileSync(`${path}.checksum`, "utf8")).toBe(`${model.checksum}\n`);
    rmSync(`${path}.checksum`);
    await client.download("speller", { folder: home });
    expect(readFileSync(`${path}.checksum`, "utf8")).toBe(`${model.checksum}\n`);

    const offline = new Client({ ...options, url: "" });
    const get = (more = {}) => offline.download("speller", { folder: home, ...more });
    await expect(get()).rejects.toThrow("no address of a service is set");
    writeFileSync(`${options.stateFile}.license`, signLicense());
    expect(offline.mayWork()).toBe(true);
    expect([await get(), await get({ version: "1.0.0" })]).toEqual([path, path]);
    await expect(get({ version: "1.0" })).rejects.toThrow("no address of a service is set");
    await expect(offline.download("spell", { folder: home })).rejects.toThrow(
      "no address of a service is set",
    );
    // A newer file, and one of another model.
    for (const [name, text] of [
      ["speller-2.0.0.onnx", "newer"],
      ["speller-big-1.0.0.onnx", "other"],
    ] as const) {
      writeFileSync(join(home, name), text);
      const digest = new Bun.CryptoHasher("sha256").update(text).digest("hex");
      writeFileSync(join(home, `${name}.checksum`), `sha256:${digest}`);
      utimesSync(join(home, `${name}.checksum`), new Date(), new Date(Date.now() + 60_000));
    }
    expect(await get()).toBe(join(home, "speller-2.0.0.onnx"));
    writeFileSync(join(home, "speller-2.0.0.onnx"), "damaged");
    expect(await get()).toBe(path);
    truncateSync(path, 9);
    await expect(get()).rejects.toThrow("no address of a service is set");

    service.on("/v1/models/list", () => refusedWith(401, "INVALID_KEY"));
    writeFileSync(path, bytes);
    await expect(client.download("speller", { folder: home })).rejects.toThrow("The sentence of INVALID_KEY");
  });

  test("continues after a restart, begins anew after a change, and never gets a file that is far too large", async () => {
    using service = await startFakeService();
    const { client, options } = create(service);
    const home = join(options.stateFile, "..");
    const path = join(home, "speller-1.0.0.onnx");
    service.on("/v1/models/list", () => listOf(modelOf("speller", service.url, bytes)));
    service.on("/file/speller.onnx", serveFile(bytes, '"tag"'));
    writeFileSync(`${path}.part`, bytes.subarray(0, 1_000_000));
    writeFileSync(`${path}.part.etag`, '"tag"');
    expect(await client.download("speller", { folder: home })).toBe(path);
    expect(service.requests.at(-1)?.headers.range).toBe("bytes=1000000-");
    expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);

    // A part that is whole, and a part of another file.
    for (const [part, tag] of [
      [bytes, '"tag"'],
      [bytes.subarray(9, 99), '"other"'],
      [new Uint8Array(9), ""],
    ] as const) {
      rmSync(path);
      writeFileSync(`${path}.part`, part);
      writeFileSync(`${path}.part.etag`, tag);
      expect(await client.download("speller", { folder: home })).toBe(path);
      expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);
    }
    truncateSync(path, 9);
    const endless = modelOf("speller", service.url, bytes, { size_mb: 0.5 });
    service.on("/v1/models/list", () => listOf(endless));
    await expect(client.download("speller", { folder: home })).rejects.toThrow("cannot be fetched");
  });

  test("stops an answer that does not say its length when it gets too long, and never takes another version", async () => {
    using service = await startFakeService();
    const { client, options } = create(service);
    const home = join(options.stateFile, "..");
    const model = modelOf("speller", service.url, bytes, { size_mb: 0.5 });
    service.on(
      "/v1/models/list",
      inOrder(listOf(model), listOf(model), listOf({ ...model, version: "2.0.0" })),
    );
    service.on("/file/speller.onnx", () => ({ body: bytes, isChunked: true }));
    await expect(client.download("speller", { folder: home })).rejects.toThrow(
      "it is larger than the list says",
    );
    expect(readdirSync(home).filter((name) => name.endsWith(".part"))).toEqual([]);
    service.on("/file/speller.onnx", () => refusedWith(404, "NOT_FOUND"));
    await expect(client.download("speller", { folder: home })).rejects.toThrow(
      "there is no model speller 1.0.0, or the license does not include it",
    );
  });

  test("refuses a link that is no address of the web, and says which folder is missing", async () => {
    using service = await startFakeService();
    const { client, options } = create(service);
    const model = modelOf("speller", service.url, bytes, { download_url: `file://${options.stateFile}` });
    service.on("/v1/models/list", () => listOf(model, {}, ["x"]));
    await expect(client.download("speller", { folder: join(folder, "missing") })).rejects.toThrow(
      "there is no folder",
    );
    expect(await client.models()).toEqual([model]);
    await expect(client.download("speller", { folder })).rejects.toThrow("neither https:// nor http://");
  });
});

describe("events", () => {
  const batches = (service: FakeService) =>
    service.to("/v1/analytics/batch").map(({ fields }) => fields.events as Event[]);

  test("are sent in batches of a thousand and of a megabyte, oldest first, and of half the size after 413", async () => {
    using service = await startFakeService();
    const { client, lines } = create(service);
    service.on("/v1/analytics/batch", countEvents());
    const keys = Array.from({ length: 1_500 }, () => client.logEvent("inference"));
    expect(await client.sendEvents()).toEqual({ accepted: 1_500, refused: 0, waiting: 0 });
    expect(batches(service).map(({ length }) => length)).toEqual([1_000, 500]);
    expect(lines).toEqual([
      "events: 200; 1000 accepted, 0 refused, 500 waiting; next batch",
      "events: 200; 500 accepted, 0 refused, 0 waiting; done",
    ]);
    expect(
      batches(service)
        .flat()
        .map(({ idempotency_key }) => idempotency_key),
    ).toEqual(keys);

    service.requests.length = 0;
    for (let event = 0; event < 90; event++)
      client.logEvent("error", { metadata: { text: "é".repeat(8_000) } });
    service.on("/v1/analytics/batch", (request) =>
      request.fields.events.length > 8 ? refusedWith(413, "PAYLOAD_TOO_LARGE") : countEvents()(request),
    );
    expect(await client.sendEvents()).toEqual({ accepted: 90, refused: 0, waiting: 0 });
    expect(
      batches(service)
        .map(({ length }) => length)
        .slice(0, 5),
    ).toEqual([61, 30, 15, 7, 7]);
  });

  test("are many again after the one that is too large for the service", async () => {
    using service = await startFakeService();
    const { client } = create(service);
    client.logEvent("inference", { modelName: "large" });
    for (let event = 0; event < 7; event++) client.logEvent("inference");
    service.on("/v1/analytics/batch", (request) =>
      request.fields.events[0].model_name === "large"
        ? refusedWith(413, "PAYLOAD_TOO_LARGE")
        : countEvents()(request),
    );
    expect(await client.sendEvents()).toEqual({ accepted: 7, refused: 1, waiting: 0 });
    expect(batches(service).map(({ length }) => length)).toEqual([8, 4, 2, 1, 7]);
  });

  test("are sent by fewer if the service takes fewer, and stop with one that is wrong as a whole", async () => {
    using service = await startFakeService();
    const { client, lines } = create(service);
    service.on("/v1/analytics/batch", (request) =>
      request.fields.events.length > 100 ? refusedWith(400, "INVALID_REQUEST") : countEvents()(request),
    );
    for (let event = 0; event < 150; event++) client.logEvent("inference");
    expect(await client.sendEvents()).toEqual({ accepted: 150, refused: 0, waiting: 0 });
    expect(batches(service).map(({ length }) => length)).toEqual([150, 75, 75]);
    service.on("/v1/analytics/batch", () => refusedWith(400, "INVALID_REQUEST"));
    client.logEvent("inference");
    expect(await client.sendEvents()).toEqual({ accepted: 0, refused: 0, waiting: 1 });
    expect(lines.at(-1)).toBe(
      "events: 400 INVALID_REQUEST; 0 accepted, 0 refused, 1 waiting; stop: The sentence of INVALID_REQUEST",
    );
  });

  test("wait after failures, and go on with the same keys after a crash", async () => {
    using service = await startFakeService();
    const { client, file, lines, again } = create(service);
    const key = client.logEvent("inference", { durationMs: 3, success: true, metadata: { a: 1 } });
    const before = readFileSync(file("events"));
    service.on(
      "/v1/analytics/batch",
      inOrder(
        "close",
        refusedWith(503, "SERVICE_UNAVAILABLE", { "Retry-After": "1" }),
        countEvents()({ fields: { events: [0] } } as never) as object,
      ),
    );
    expect(await client.sendEvents()).toEqual({ accepted: 1, refused: 0, waiting: 0 });
    expect(lines).toEqual([
      "events: no answer: connection closed; 0 accepted, 0 refused, 1 waiting; send in 1 s",
      "events: 503 SERVICE_UNAVAILABLE; 0 accepted, 0 refused, 1 waiting; send in 1 s",
      "events: 200; 1 accepted, 0 refused, 0 waiting; done",
    ]);
    // The crash came before the event was removed.
    writeFileSync(file("events"), before);
    expect(await again().sendEvents()).toMatchObject({ accepted: 1 });
    expect(batches(service).map(([event]) => event?.idempotency_key)).toEqual([key, key, key, key]);
    expect(batches(service)[0]).toEqual([
      expect.objectContaining({ event_type: "inference", duration_ms: 3, success: true, metadata: { a: 1 } }),
    ]);
  });

  test("are as many after a 429 as had room, and all of them after one that tells no room", async () => {
    using service = await startFakeService();
    const { client } = create(service);
    for (let event = 0; event < 10; event++) client.logEvent("inference");
    const full = (remaining: object) =>
      refusedWith(429, "RATE_LIMIT_EXCEEDED", { "Retry-After": "1", ...remaining });
    const refusals = [
      full({ "X-RateLimit-Remaining": "0" }),
      full({}),
      full({ "X-RateLimit-Remaining": "3" }),
    ];
    service.on("/v1/analytics/batch", (request) => refusals.shift() ?? countEvents()(request));
    expect(await client.sendEvents()).toEqual({ accepted: 10, refused: 0, waiting: 0 });
    expect(batches(service).map(({ length }) => length)).toEqual([10, 10, 10, 3, 7]);
  });

  test("of thirty machines get through the ten batches a minute of their key in the fewest batches", async () => {
    using service = await startFakeService();
    const machines = Array.from({ length: 30 }, () => create(service).client);
    for (const client of machines) for (let event = 0; event < 20; event++) client.logEvent("inference");
    let taken: number[] = [];
    let batchCount = 0;
    service.on("/v1/analytics/batch", (request) => {
      // A minute of this service is a second.
      taken = taken.filter((at) => performance.now() - at < 1_000);
      if (taken.length >= 10)
        return refusedWith(429, "RATE_LIMIT_EXCEEDED", { "Retry-After": "1", "X-RateLimit-Remaining": "0" });
      taken.push(performance.now());
      batchCount++;
      return countEvents()(request);
    });
    const counts = await Promise.all(
      machines.map(async (client) => {
        let accepted = 0;
        for (let waiting = 1; waiting > 0; ) {
          const sent = await client.sendEvents();
          accepted += sent.accepted;
          waiting = sent.waiting;
        }
        return accepted;
      }),
    );
    expect({ counts, batchCount }).toEqual({ counts: Array.from({ length: 30 }, () => 20), batchCount: 30 });
  }, 60_000);

  test("are sent with no request and no wait after a time that the caller names", async () => {
    using service = await startFakeService();
    const { client } = create(service);
    client.logEvent("inference");
    const began = performance.now();
    expect(await client.sendEvents({ timeoutSeconds: 0 })).toEqual({ accepted: 0, refused: 0, waiting: 1 });
    expect(service.requests).toEqual([]);
    service.on("/v1/analytics/batch", () => refusedWith(503, "SERVICE_UNAVAILABLE", { "Retry-After": "30" }));
    expect(await client.sendEvents({ timeoutSeconds: 5 })).toMatchObject({ accepted: 0, waiting: 1 });
    expect(service.requests.length).toBe(1);
    // Another call waits for 30 s between its requests.
    void client.sendEvents({ timeoutSeconds: 60 });
    await until(() => service.requests.length === 2);
    expect(await client.sendEvents({ timeoutSeconds: 1 })).toMatchObject({ accepted: 0, waiting: 1 });
    expect({ requests: service.requests.length, isQuick: performance.now() - began < 10_000 }).toEqual({
      ...{ requests: 2, isQuick: true },
    });
  });

  test("are refused as the service would refuse them, and have a time with its zone", () => {
    const { client, file } = create(undefined);
    for (const [type, fields, why] of [
      ["shutdown", {}, "the event cannot be logged: event_type must be inference, model_load or error"],
      ["inference", { modelName: "x".repeat(201) }, "model_name must be"],
      ["inference", { durationMs: -1 }, "duration_ms must be"],
      ["inference", { occurredAt: new Date("2019-12-31") }, "occurred_at must be a time from 2020-01-01 on"],
      ...[
        new Date(Number.NaN),
        ...[
          "",
          "yesterday",
          "2026-11-30",
          "2026-11-30T10:00:00",
          "2026-02-30T10:00:00Z",
          "2026-11-30T24:00:00Z",
        ],
        ...["2026-11-30 10:00:00Z", "2026-11-30T10:00:00+0100", "2026-11-30T10:00:00Z\n"],
      ].map(
        (occurredAt) => ["inference", { occurredAt }, "occurred_at must be a time with its zone"] as const,
      ),
    ] as const)
      expect(() => client.logEvent(type, fields)).toThrow(why);
    expect(existsSync(file("events"))).toBe(false);
    const times = [
      "2026-11-30T10:00:00+01:30",
      "2026-11-30T10:00:00.25Z",
      "2026-11-30T10:00:00.123456789-00:30",
    ];
    for (const occurredAt of times) client.logEvent("inference", { occurredAt });
    const lines = readFileSync(file("events"), "utf8").trim().split("\n");
    expect(lines.map((line) => JSON.parse(line).occurred_at)).toEqual([
      ...["2026-11-30T08:30:00.000Z", "2026-11-30T10:00:00.250Z", "2026-11-30T10:30:00.123Z"],
    ]);
  });

  test("are sent by fewer after a failure, and the loop goes on after one of the disk", async () => {
    using service = await startFakeService();
    const { client, lines, file } = create(service);
    for (let event = 0; event < 4; event++) client.logEvent("inference");
    service.on("/v1/analytics/batch", (request) =>
      service.requests.length === 1 ? "close" : countEvents()(request),
    );
    expect(await client.sendEvents()).toEqual({ accepted: 4, refused: 0, waiting: 0 });
    expect(batches(service).map(({ length }) => length)).toEqual([4, 2, 2]);
    rmSync(file("events"));
    mkdirSync(join(file("events"), "x"), { recursive: true });
    const stopping = new AbortController();
    const running = client.runEvents(stopping.signal);
    await until(() => lines.some((line) => /^events: .*EISDIR/.test(line)));
    stopping.abort();
    await running;
  });

  test("that are refused for good or too old are given to the program, which may fail", async () => {
    using service = await startFakeService();
    const refused: string[] = [];
    const { client, lines } = create(service, {
      onRefused({ model_name }, code, error) {
        refused.push(`${model_name} ${code} ${error}`);
        throw new Error("a failure of the program");
      },
    });
    const at = (days: number) => new Date(Date.now() - days * 86_400_000);
    client.logEvent("inference", { modelName: "old", occurredAt: at(8) });
    client.logEvent("inference", { modelName: "good", occurredAt: at(6) });
    client.logEvent("inference", { modelName: "over" });
    service.on(
      "/v1/analytics/batch",
      countEvents(({ model_name }) => (model_name === "over" ? "QUOTA_EXCEEDED" : undefined)),
    );
    expect(await client.sendEvents()).toEqual({ accepted: 1, refused: 2, waiting: 0 });
    expect(refused).toEqual([
      "old EVENT_TOO_OLD the event is older than 7 days",
      "over QUOTA_EXCEEDED The sentence of QUOTA_EXCEEDED",
    ]);
    expect(lines).toContain("onRefused failed: Error: a failure of the program");
  });

  test("that come while a batch is sent are kept, and two senders send each once", async () => {
    using service = await startFakeService();
    const { client } = create(service);
    client.logEvent("inference");
    service.on("/v1/analytics/batch", (request) => {
      if (service.requests.length === 1) client.logEvent("model_load");
      return countEvents()(request);
    });
    const both = await Promise.all([client.sendEvents(), client.sendEvents()]);
    expect(both.map(({ accepted }) => accepted).toSorted()).toEqual([0, 2]);
    expect(batches(service).map((events) => events.map(({ event_type }) => event_type))).toEqual([
      ["inference"],
      ["model_load"],
    ]);
  });

  test("leave the queue alone if another process has sent the same", async () => {
    using service = await startFakeService();
    const { client, file } = create(service);
    client.logEvent("inference");
    const rest = '{"idempotency_key":"k2","occurred_at":"2026-01-01","event_type":"model_load"}\n';
    service.on("/v1/analytics/batch", (request) => {
      if (service.requests.length === 1)
        writeFileSync(file("events"), rest.replace("2026-01-01", new Date().toISOString()));
      return countEvents()(request);
    });
    await client.sendEvents();
    expect(batches(service).map(([event]) => event?.event_type)).toEqual(["inference", "model_load"]);
  });

  test("that other processes add while they are sent are sent, too", async () => {
    using service = await startFakeService();
    const { client, options } = create(service);
    const keys = new Set<string>();
    service.on("/v1/analytics/batch", (request) => {
      for (const { idempotency_key } of request.fields.events) keys.add(idempotency_key);
      return countEvents()(request);
    });
    const { url, apiKey, stateFile, fingerprint } = options;
    const module = join(import.meta.dir, "../../src/cli/guide/sdk/claviger_client.ts");
    const script = `
      const { Client } = await import(${JSON.stringify(module)});
      const client = new Client(${JSON.stringify({ url, apiKey, stateFile, fingerprint })});
      for (let event = 0; event < 400; event++) {
        client.logEvent("inference");
        if (event % 10 === 0) await Bun.sleep(1);
      }`;
    const writers = [1, 2].map(() => Bun.spawn([process.execPath, "-e", script], { timeout: 30_000 }));
    const ended = Promise.all(writers.map(({ exited }) => exited));
    let isOver = false;
    void ended.then(() => {
      isOver = true;
    });
    while (!isOver) {
      await client.sendEvents();
      await Bun.sleep(1);
    }
    expect(await ended).toEqual([0, 0]);
    expect(await client.sendEvents()).toMatchObject({ waiting: 0 });
    expect(keys.size).toBe(800);
  }, 60_000);

  test("are refused when too many wait", () => {
    const { client, file } = create(undefined);
    writeFileSync(file("events"), "{}\n".repeat(100_000));
    expect(() => client.logEvent("inference")).toThrow(
      `100000 events or 64 MiB wait in ${file("events")}: send them`,
    );
    writeFileSync(file("events"), "{}\n".repeat(99_999));
    client.logEvent("inference");
    expect(() => client.logEvent("inference")).toThrow("100000 events");
    writeFileSync(file("events"), `${"x".repeat(1_023)}\n`.repeat(65_536));
    expect(() => client.logEvent("inference")).toThrow("64 MiB");
  });

  test("are sent by the loop at once, and not at all after the key was refused", async () => {
    using service = await startFakeService();
    const { client } = create(service);
    service.on("/v1/analytics/batch", inOrder(refusedWith(401, "INVALID_KEY")));
    client.logEvent("inference");
    await client.runEvents();
    expect(service.requests.length).toBe(1);
    service.on("/v1/analytics/batch", countEvents());
    const stopping = new AbortController();
    const running = client.runEvents(stopping.signal);
    await until(() => service.requests.length === 2);
    stopping.abort();
    await running;
  });
});
