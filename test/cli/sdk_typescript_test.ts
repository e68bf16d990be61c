/** The module of the page `sdk` in TypeScript, imported: it decides as the test vectors say, and survives what can fail. */
import { describe, expect, test } from "bun:test";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
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
import { LANGUAGES } from "./sdk_languages.ts";

const folder = useFolder();
const NOBODY = "http://127.0.0.1:1";

function create(service: FakeService | undefined, more: Partial<ClientOptions> = {}) {
  const stateFile = join(mkdtempSync(join(folder, "home-")), "state");
  const lines: string[] = [];
  const options = {
    ...{ url: service?.url ?? NOBODY, apiKey: "svc_live_1", stateFile, fingerprint: "workstation-7" },
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
      const { validations, batches, downloads, reports, clocks, bundles } = vectors;
      const cases = [validations, batches, downloads, reports, clocks, bundles.cases, licenses.cases];
      expect(JSON.parse(stdout.toString()).checked).toBe(cases.reduce((sum, { length }) => sum + length, 0));
    });
  },
);

describe("new Client()", () => {
  test("says what is wrong with the address, the folder and the keys", () => {
    for (const [more, why] of [
      [{ url: "licenses.example.org" }, "the address of the service must begin with https:// or http://"],
      [
        { stateFile: join(folder, "missing", "state") },
        `there is no folder ${join(folder, "missing")}, so create it`,
      ],
      [{ keys: join(folder, "missing.json") }, "missing.json"],
      [{ keys: { keys: "x" } as object as { keys: [] } }, "keys is not a JWK set"],
    ] as const)
      expect(() => create(undefined, more)).toThrow(why);
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
      [service.url.replace("http:", "https:"), "TLS"],
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
    expect(new Client({ ...options, apiKey: "svc_live_2" }).licenseAnswer()).toBeNull();
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
    const other = new Client({ ...options, apiKey: "svc_live_2" });
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
      "the clock is behind: correct it, or open a newer bundle or license",
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

describe("download()", () => {
  const bytes = crypto.getRandomValues(new Uint8Array(3_000_000));

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
    await expect(client.download("speller", { folder: home })).rejects.toThrow("no model speller 1.0.0");
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
    const { client } = create(service);
    service.on("/v1/analytics/batch", countEvents());
    const keys = Array.from({ length: 1_500 }, () => client.logEvent("inference"));
    expect(await client.sendEvents()).toEqual({ accepted: 1_500, refused: 0, waiting: 0 });
    expect(batches(service).map(({ length }) => length)).toEqual([1_000, 500]);
    expect(
      batches(service)
        .flat()
        .map(({ idempotency_key }) => idempotency_key),
    ).toEqual(keys);

    service.requests.length = 0;
    for (let event = 0; event < 50; event++) client.logEvent("error", { errorMessage: "é".repeat(15_000) });
    service.on("/v1/analytics/batch", (request) =>
      request.fields.events.length > 8 ? refusedWith(413, "PAYLOAD_TOO_LARGE") : countEvents()(request),
    );
    expect(await client.sendEvents()).toEqual({ accepted: 50, refused: 0, waiting: 0 });
    expect(
      batches(service)
        .map(({ length }) => length)
        .slice(0, 4),
    ).toEqual([33, 16, 8, 8]);
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

  test("are sent by fewer after a failure, and the loop goes on after one of the disk", async () => {
    using service = await startFakeService();
    const { client, lines, file } = create(service);
    for (let event = 0; event < 4; event++) client.logEvent("inference");
    const busy = refusedWith(429, "RATE_LIMIT_EXCEEDED", { "Retry-After": "1" });
    service.on("/v1/analytics/batch", (request) =>
      service.requests.length === 1 ? busy : countEvents()(request),
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

  test("are refused when they are too large, and when too many wait", () => {
    const { client, file } = create(undefined);
    expect(() => client.logEvent("error", { errorMessage: "x".repeat(66_000) })).toThrow(
      "larger than 64 KiB",
    );
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
