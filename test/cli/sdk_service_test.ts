/** The clients of the page `sdk` against the service itself. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import SDK from "../../src/cli/guide/sdk.md" with { type: "text" };
import { addHostedModel, testBytes } from "../support/hosted.ts";
import { type Places, setPlaces } from "../support/machines.ts";
import { until } from "../support/until.ts";
import { useHostingService } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { createInstaller, LANGUAGES, type Language, withoutTimes } from "./sdk_languages.ts";
import { hasCryptography } from "./sdk_python.ts";

// A busy machine starts an interpreter in seconds.
setDefaultTimeout(120_000);

/** Links have to lead to the service, so its address has to be known before it starts. */
function findFreePort(): number {
  using server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  return server.port ?? 0;
}

const port = findFreePort();
const service = useHostingService({ config: { port, publicUrl: `http://127.0.0.1:${port}` } });
const folder = useFolder();
const OTHER = { LICENSE_FINGERPRINT: "workstation-8" };

/** Issues a key whose license has places, and installs clients with it. */
async function installWith(places: Places) {
  const { apiKey, licenseUuid } = await service.issue();
  await setPlaces(service.database, licenseUuid, places);
  const install = createInstaller(folder, apiKey);
  return {
    client(language: Language, more = {}) {
      const installed = install(language, service.url, more);
      const run = (...args: readonly string[]) => installed.runArguments([language.module, ...args]);
      return { ...installed, run };
    },
    post: (path: string) => service.post(path, { api_key: apiKey, fingerprint: "workstation-7" }),
  };
}

describe.each(LANGUAGES)("a client of the page `sdk`: $name", (language) => {
  test("waits for the seat of another one, gets it after the release, and gets it again after a release by others", async () => {
    const { client, post } = await installWith({ maxMachines: 1, seatMinutes: 5 });
    const [first, second] = [client(language), client(language, OTHER)];
    expect((await first.run("activate")).lines).toEqual([
      expect.stringMatching(/^activate: 200; may work until TIME; heartbeat in \d{2,3} s$/),
    ]);
    expect((await second.run("activate")).lines).toEqual([
      expect.stringMatching(/^activate: 409 MACHINE_LIMIT_REACHED; may not work; activate in 10 s$/),
    ]);
    expect(await first.run("release")).toMatchObject({
      status: 0,
      lines: ["release: 200; may not work; done"],
    });
    expect((await second.run("activate")).status).toBe(0);
    expect((await second.run("release")).status).toBe(0);

    expect((await first.run("activate")).status).toBe(0);
    const { machine_id } = first.readState();
    expect((await post("/v1/machines/release")).body).toEqual({ released: true, machine_id });
    const { client: running, lines, reading } = first.start("run");
    await until(() => lines.length === 2, { limitMs: 60_000 });
    running.kill();
    await reading;
    expect(lines.map(withoutTimes)).toEqual([
      "heartbeat: 404 MACHINE_NOT_FOUND; may not work; activate in 0 s",
      expect.stringMatching(/^activate: 200; may work until TIME; heartbeat in \d{2,3} s$/),
    ]);
    const { status, body } = await post("/v1/machines/heartbeat");
    expect({ status, machine: body.machine_id }).toEqual({
      status: 200,
      machine: first.readState().machine_id,
    });
  });

  test("asks every hour on a node-locked machine that checks in within 90 days, and works for seven days without an answer", async () => {
    const { client } = await installWith({ maxMachines: 1, seatMinutes: 129_600 });
    const checking = client(language);
    expect((await checking.run("activate")).lines).toEqual([
      "activate: 200; may work until TIME; heartbeat in 3600 s",
    ]);
    const state = checking.readState();
    expect(state.until - state.seen).toBeWithin(604_800 - 60, 604_800 + 1);
  });

  test("works with a node-locked machine, without a limit, and stops with a revoked key", async () => {
    const locked = await installWith({ maxMachines: 1 });
    const hourly = ["activate: 200; may work until TIME; heartbeat in 3600 s"];
    expect((await locked.client(language).run("activate")).lines).toEqual(hourly);
    expect((await locked.client(language, OTHER).run("activate")).lines).toEqual([
      "activate: 409 MACHINE_LIMIT_REACHED; may not work; activate in 10 s",
    ]);
    const uncounted = await installWith({});
    const client = uncounted.client(language);
    expect((await client.run("activate")).lines).toEqual(hourly);
    expect((await client.run("status")).out).toContain("machine none\n");
    expect((await uncounted.post("/v1/auth/revoke")).status).toBe(200);
    expect(await client.run("run")).toMatchObject({
      status: 1,
      lines: ["heartbeat: 401 INVALID_KEY; may not work; stop: The API key is invalid or inactive"],
    });
    expect((await client.run("status")).status).toBe(1);
  });
});

const MODULES = LANGUAGES.filter(({ name }) => !name.startsWith("shell"));

/** The block of the guide in each language, and a program that uses its SDK. */
const SMALL_SDKS = {
  Python: {
    block: "python",
    file: "sdk.py",
    program: (...[url, key, state, models, name]: readonly string[]) => `
from sdk import Sdk
sdk = Sdk(${url}, ${key}, ${state}, ${models})
sdk.start()
path = sdk.load(${name})
print(path, sdk.infer(${name}, lambda: 42), sdk.infer(${name}, lambda: 42))
while sdk.client.send_events().waiting > 0:
    pass
`,
  },
  TypeScript: {
    block: "ts",
    file: "sdk.ts",
    program: (...[url, key, state, models, name]: readonly string[]) => `
import { Sdk } from "./sdk.ts";
const sdk = new Sdk(${url}, ${key}, ${state}, ${models});
await sdk.start();
const path = await sdk.load(${name});
const results = [await sdk.infer(${name}, async () => 42), await sdk.infer(${name}, async () => 42)];
process.stdout.write([path, ...results].join(" ") + "\\n");
while ((await sdk.client.sendEvents()).waiting > 0);
`,
  },
} as const;

describe.each(MODULES)("a module of the page `sdk`: $name", (language) => {
  test("keeps what the license allows, and downloads a model", async () => {
    const { client } = await installWith({});
    const { run, stateFile } = client(language);
    const bytes = testBytes(300_000);
    const name = `speller_${crypto.randomUUID()}`;
    const checksum = await addHostedModel(
      service,
      { name, version: "1.2.0", fileName: "speller.onnx" },
      bytes,
    );
    expect(JSON.parse((await run("validate")).out)).toMatchObject({ valid: true, license_type: "research" });
    expect((await run("features")).out).toContain("feature streaming\n");
    expect((await run("models")).out).toContain(`${name} 1.2.0 sha256:${checksum}\n`);
    const home = mkdtempSync(join(folder, "models-"));
    const path = join(home, `${name}-1.2.0.onnx`);
    writeFileSync(`${path}.part`, bytes.subarray(0, 100_000));
    writeFileSync(`${path}.part.etag`, `"${checksum}"`);
    expect(await run("download", name, home)).toMatchObject({ status: 0, out: `${path}\n` });
    expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);
    expect(stateFile).toStartWith(folder);
  });

  test.skipIf(language.name === "Python" && !hasCryptography)(
    "borrows the license of a machine that has a place, and says until when the place stays taken",
    async () => {
      const { client } = await installWith({ maxMachines: 1, seatMinutes: 5 });
      const keys = join(mkdtempSync(join(folder, "keys-")), "keys.json");
      writeFileSync(keys, JSON.stringify((await service.get("/.well-known/jwks.json")).body));
      const { run } = client(language, { LICENSE_KEYS: keys, LICENSE_AUDIENCE: "svc" });
      expect((await run("borrow", "2")).lines).toEqual([
        "license: 404 MACHINE_NOT_FOUND",
        expect.stringMatching(/^refused: .*machine/i),
      ]);
      expect((await run("activate")).status).toBe(0);
      const end = new Date(Date.now() + 2 * 86_400_000).toISOString().slice(0, 10);
      expect((await run("borrow", "2")).out).toStartWith(`research until ${end}\nfeature `);
      expect(await run("give-back")).toMatchObject({
        status: 0,
        out: expect.stringContaining(`taken until ${end}T`),
      });
    },
  );

  test("sends events that waited, each counted once, and corrects those of a clock that was ahead", async () => {
    const { client, post } = await installWith({});
    const { run, stateFile } = client(language);
    const file = `${stateFile}.events`;
    for (const type of ["inference", "inference", "model_load"]) await run("log", type);
    const waiting = readFileSync(file, "utf8");
    const day = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
    const line = (days: number) =>
      `${JSON.stringify({ idempotency_key: `k${days}`, occurred_at: day(days), event_type: "inference" })}\n`;
    // One that is too old, one that waited for days, one from the future, and one that the service does not know.
    const unknown = line(-1).replace("inference", "unknown").replace("k-1", "other");
    writeFileSync(file, line(-8) + line(-6) + line(1) + unknown + waiting);
    const sent = await run("send");
    expect(sent).toMatchObject({ status: 0, out: "accepted 5\nrefused 2\nwaiting 0\n" });
    // A crash came before the events were removed.
    writeFileSync(file, waiting);
    expect(await run("send")).toMatchObject({ status: 0, out: "accepted 3\nrefused 0\nwaiting 0\n" });
    expect((await post("/v1/auth/validate")).body.quota.used).toBeWithin(3, 5);
  });

  test("is all that the small SDK of the guide needs", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    await setPlaces(service.database, licenseUuid, { maxMachines: 1, seatMinutes: 5 });
    const name = `speller_${crypto.randomUUID()}`;
    const bytes = testBytes(1_000);
    await addHostedModel(service, { name, version: "1.2.0", fileName: "speller.onnx" }, bytes);
    const home = mkdtempSync(join(folder, "small-"));
    copyFileSync(language.module, join(home, basename(language.module)));
    const { block, file, program } = SMALL_SDKS[language.name === "Python" ? "Python" : "TypeScript"];
    const [, section = ""] = SDK.split("## A small SDK\n");
    const [, sdk = ""] = new RegExp(`^\`\`\`${block}\\n(.*?)^\`\`\`$`, "ms").exec(section) ?? [];
    writeFileSync(join(home, file), sdk);
    const main = join(home, `main_${file}`);
    const values = [service.url, apiKey, join(home, "state.json"), home, name];
    writeFileSync(main, program(...values.map((value) => JSON.stringify(value))));
    const child = Bun.spawn([...language.command, main], { cwd: home, stdout: "pipe", stderr: "pipe" });
    const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    expect({ status: await child.exited, err: err + out }).toEqual({
      status: 0,
      err: expect.stringContaining("activate: 200"),
    });
    expect(out).toContain(`${join(home, `${name}-1.2.0.onnx`)} 42 42\n`);
    expect(readFileSync(join(home, `${name}-1.2.0.onnx`))).toEqual(Buffer.from(bytes));
    const { body } = await service.post("/v1/auth/refresh", { api_key: apiKey });
    expect(body.quota.used).toBe(2);
  });
});
