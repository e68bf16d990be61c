/** The demo as the person sees it who tries the program: what its first start prints, what it can do, and its removal. */
import { beforeAll, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { hash } from "node:crypto";
import { createServer } from "node:net";
import { findFreePort } from "../support/find_free_port.ts";
import { until } from "../support/until.ts";
import {
  type CommandLine,
  createCommandLine,
  type RunningService,
  readFindings,
  refusalOf,
} from "./command_line.ts";
import { postJson, useCommandLine } from "./use_command_line.ts";

const LISTEN = ["--admin-listen", "127.0.0.1:0"];

describe("claviger serve --demo on an empty folder", () => {
  test("prints a key for each tier, one in each other state, and curl lines", async () => {
    const env = { CLAVIGER_BRAND: "acme" };
    using demo = createCommandLine();
    await using service = await demo.serve(["--demo"], { env });
    const keys = new Map(
      [...service.out.matchAll(/^ {2}(\S.*?) +(acme_test_[0-9a-f]{48})$/gm)].map(
        ([, label = "", key = ""]) => [label, key],
      ),
    );
    const answers: Record<string, unknown> = {};
    for (const [label, apiKey] of keys) {
      const { body } = await postJson(`${service.url}/v1/auth/validate`, { api_key: apiKey });
      answers[label] = body.code ?? body.license_type;
    }
    expect(answers).toEqual({
      free: "free",
      research: "research",
      commercial: "commercial",
      enterprise: "enterprise",
      expired: "KEY_EXPIRED",
      suspended: "INVALID_KEY",
      revoked: "INVALID_KEY",
      "quota used up": "QUOTA_EXCEEDED",
    });
    expect(service.out.match(/^ {2}curl -s /gm)).toHaveLength(7);
    expect(await demo.json(["models", "list"], { env })).toHaveLength(4);
    const verified = await demo.json(["models", "verify"], { env });
    expect(verified.files.map(({ state }: { state: string }) => state)).toEqual(Array(4).fill("good"));
  });
});

describe("a demo's data", () => {
  const demo = useCommandLine({ prepared: true });
  const env = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org" };
  let first: RunningService;
  beforeAll(async () => {
    first = await demo.serve(["--demo"], { env });
    await first.stop();
  });

  /** Copies the installation for a test that removes the demo: another first start would take seconds. */
  function copyDemo(): CommandLine {
    const copy = createCommandLine();
    const { status, stderr } = spawnSync("cp", ["-a", demo.dataDir, copy.dataDir], { encoding: "utf8" });
    if (status !== 0) throw new Error(`Cannot copy the demo: ${stderr}`);
    return copy;
  }

  const demoFinding = async (place: CommandLine) =>
    readFindings(await place.here(["doctor", "--json"])).of("demo");

  test("contains models that a client can download by the list's addresses", async () => {
    await using service = await demo.serve(["--demo"], { env });
    const [, apiKey = ""] = /^ {2}research +(\S+)$/m.exec(first.out) ?? [];
    const list = await fetch(`${service.url}/v1/models/list`, { headers: { "X-API-Key": apiKey } });
    const { models } = (await list.json()) as { models: Record<string, string>[] };
    expect(models).toHaveLength(4);
    for (const { name, checksum, download_url: address, size_mb: size } of models) {
      const response = await fetch(String(address).replace(env.CLAVIGER_PUBLIC_URL, service.url));
      expect(response.headers.get("content-disposition")).toBe(`attachment; filename="${name}.onnx"`);
      const bytes = new Uint8Array(await response.arrayBuffer());
      expect({ name, checksum: `sha256:${hash("sha256", bytes)}` }).toEqual({
        name: String(name),
        checksum: String(checksum),
      });
      expect(bytes.length).toBeWithin(300, 10_000);
      expect(Number(size)).toBe(bytes.length / 1e6);
    }
  });

  test("signs licenses for clients and by command under the same name, though its address is in links", async () => {
    const port = await findFreePort();
    const service = await demo.serve(["--demo", "--port", String(port)]);
    const [, apiKey = ""] = /^ {2}enterprise +(\S+)$/m.exec(first.out) ?? [];
    const signed = await postJson(`${service.url}/v1/auth/license`, { api_key: apiKey });
    const list = await fetch(`${service.url}/v1/models/list`, { headers: { "X-API-Key": apiKey } });
    await service.stop();
    const [{ id }] = await demo.json(["keys", "list", "--account", "enterprise@demo.example"]);
    const exported = await demo.json(["licenses", "export", id, "--days", "30"]);
    const issuerOf = ({ license }: { license: string }) =>
      JSON.parse(Buffer.from(license.split(".")[1] ?? "", "base64url").toString()).iss;
    expect(issuerOf(exported)).toBe("svc");
    expect(issuerOf(signed.body)).toBe("svc");
    expect(await list.text()).toContain(`"download_url":"http://127.0.0.1:${port}/`);
  });

  test("has keys that every start shows, but for those that were changed since", async () => {
    const keysOf = ({ out }: RunningService) => [...out.matchAll(/^ {2}(\w.*?) +(svc_test_\S+)$/gm)];
    const pairs = keysOf(first).map(([, label = "", apiKey = ""]) => [label, apiKey]);
    expect(pairs).toHaveLength(8);
    const found = await demo.json(["keys", "list", "--search", "demo-commercial"]);
    for (const { id } of found) await demo.json(["keys", "suspend", id]);
    const again = await demo.serve(["--demo"], { env });
    await again.stop();
    for (const { id } of found) await demo.json(["keys", "resume", id]);
    expect(found).toHaveLength(1);
    expect(keysOf(again).map(([, label = "", apiKey = ""]) => [label, apiKey])).toEqual(
      pairs.filter(([label]) => label !== "commercial"),
    );
    expect(again.out).toContain(`{"api_key":"${Object.fromEntries(pairs).research}"}`);
  });

  test("is reported by serve without --demo, in its first lines, and by doctor", async () => {
    await using service = await demo.serve();
    expect(service.out.split("\n").slice(2, 4)).toEqual([
      "The database has demo data: demo keys are accepted, and the repository token is a made-up one. To remove both, run",
      expect.stringMatching(/^ {2}\.\/claviger demo remove --data-dir \S+ --env-file \S+$/),
    ]);
    expect(await demoFinding(demo)).toMatchObject({ state: "warn" });
  });

  test("is removed by demo remove: only its keys, models and token", async () => {
    using copy = copyDemo();
    const service = await copy.serve();
    const own = await copy.json(["keys", "issue", "--email", "ada@example.org", "--tier", "research"]);
    const validate = async (apiKey: string) =>
      (await postJson(`${service.url}/v1/auth/validate`, { api_key: apiKey })).status;
    const keys = [...first.out.matchAll(/svc_test_[0-9a-f]{48}/g)].map(([key]) => key);
    const [, research = ""] = /^ {2}research +(\S+)$/m.exec(first.out) ?? [];
    expect(await validate(research)).toBe(200);
    const month = ["--month", new Date().toISOString().slice(0, 7)];
    expect((await copy.json(["usage", "export", ...month])).length).toBeGreaterThan(10);
    const answered = async () => {
      const { data } = await copy.json(["activity", "--step", "day", "--json"]);
      return data.reduce((sum: number, row: { http_requests: number }) => sum + row.http_requests, 0);
    };
    expect(await answered()).toBeGreaterThan(100_000);
    expect(await copy.json(["demo", "remove"])).toEqual({
      keys: 30,
      models: [
        "motor_imagery_4class_v1 1.0.0",
        "motor_imagery_2class_v1 1.0.0",
        "p300_binary_v1 1.0.0",
        "ssvep_multiclass_v1 1.0.0",
      ],
      token: true,
      operator: "kept",
    });
    expect(await copy.json(["usage", "export", ...month])).toEqual([]);
    // The requests of this test may be counted meanwhile.
    expect(await answered()).toBeLessThan(100);
    const audit: { reason: string; action: string }[] = await copy.json(["audit", "--limit", "1000"]);
    const ofDemo = audit.filter(({ reason }) => reason === "demo").map(({ action }) => action);
    expect(ofDemo).toEqual(expect.arrayContaining(["license.tier", "key.import", "account.erase"]));
    for (const key of keys) await until(async () => (await validate(key)) === 401);
    expect(await validate(own.api_key)).toBe(200);
    const headers = { "X-API-Key": own.api_key };
    expect(await (await fetch(`${service.url}/v1/models/list`, { headers })).json()).toMatchObject({
      total: 0,
    });
    expect((await fetch(`${service.url}/v1/installer/repo-token`, { headers })).status).toBe(503);
    await service.stop();

    expect(refusalOf(await copy.here(["demo", "remove"]))).toBe(
      "Cannot remove the demo: this database has no demo",
    );
    expect(await demoFinding(copy)).toBeUndefined();
    const after = await copy.serve();
    await after.stop();
    expect(after.out).not.toContain("demo");
    const again = await copy.serve(["--demo"], { env });
    await again.stop();
    expect(again.out).toContain("There are keys already, so no demo was added");
    expect(again.out).not.toContain("svc_test_");
  });

  test("leaves another token and another version of a model when it is removed", async () => {
    using other = copyDemo();
    await other.here(["installer", "set-token"], { input: "own-token" });
    const added = await other.here(
      [
        ...["models", "add", "--name", "p300_binary_v1", "--version", "2", "--type", "SvcProbit"],
        ...["--n-features", "8", "--n-classes", "2", "--requires-license", "free", "--paradigm", "p300"],
        ...["--url", "https://models.example.org/p300", "--sha256", "0".repeat(64), "--size-mb", "1"],
      ],
      { env },
    );
    expect(added.status).toBe(0);
    const { models, token } = await other.json(["demo", "remove"]);
    expect(models).not.toContain("p300_binary_v1 1.0.0");
    expect({ models: models.length, token }).toEqual({ models: 3, token: false });
  });
});

describe("claviger serve --demo", () => {
  const LINK =
    /^To log in to the console, .*:\n {2}(http:\/\/127\.0\.0\.1:(\d+)\/console\/enter#([0-9a-f]{32}))$/m;
  const demo = useCommandLine({ prepared: true });

  /** Logs in with a code, and returns the status of the overview, and whether it has figures. */
  async function logIn(at: string, code = "") {
    const body = new URLSearchParams({ code });
    const options = { method: "POST", redirect: "manual", headers: { Origin: at }, body } as const;
    const { headers } = await fetch(`${at}/console/enter`, options);
    const Cookie = headers.get("set-cookie")?.split(";")[0] ?? "";
    const overview = await fetch(`${at}/console/overview`, { headers: { Cookie }, redirect: "manual" });
    return {
      status: overview.status,
      hasFigures: /fjordhall@(?:<wbr\/>)?demo\.example/.test(await overview.text()),
    };
  }

  /** Serves, and returns what it says about operators. */
  async function said(env: Readonly<Record<string, string>>, ...args: string[]) {
    await using service = await demo.serve(args, { env });
    const [, link, port, code] = LINK.exec(service.out) ?? [];
    const seen = link ? await logIn(`http://127.0.0.1:${port}`, code) : {};
    const isServed = / serves operators at /.test(service.out);
    const [, command] = /^To log in to the console, (?:.* )?run\n {2}(.*)$/m.exec(service.out) ?? [];
    return { link, code, port: Number(port), ...seen, isServed, command };
  }

  test("prints a new link that logs in at each start, also without a terminal", async () => {
    const first = await said({}, "--demo");
    expect(first).toMatchObject({ status: 200, hasFigures: true, isServed: true, command: undefined });
    const again = await said({}, "--demo", ...LISTEN);
    expect(again).toMatchObject({ status: 200, isServed: true });
    expect(again.code).not.toBe(first.code);
  });

  test("takes another port if 8081 is in use", async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => {
      taken.on("listening", resolve);
      // Another program has the port already, which is as good.
      taken.on("error", () => resolve());
      taken.listen(8081, "127.0.0.1");
    });
    const { port, ...next } = await said({}, "--demo");
    taken.close();
    expect(next).toMatchObject({ status: 200, isServed: true });
    expect(port).not.toBe(8081);
  });

  test("serves no operators and prints the command, if a journal gets the output or others reach it", async () => {
    const command = expect.stringMatching(
      /^\.\/claviger operators login your-name --role admin --data-dir \S+ /,
    );
    expect(await said({ JOURNAL_STREAM: "8:12345" }, "--demo")).toMatchObject({
      link: undefined,
      isServed: false,
      command,
    });
    const beyond = await said({}, "--demo", "--host", "0.0.0.0", ...LISTEN);
    expect(beyond).toMatchObject({ link: undefined, isServed: true, command });
  });

  test("adds no demo to a database with keys of its own, and prints no link", async () => {
    using own = createCommandLine({ prepared: true });
    await own.json(["keys", "issue", "--email", "ada@example.org", "--tier", "research"]);
    await using service = await own.serve(["--demo"]);
    expect(service.out).not.toMatch(LINK);
    expect(service.out).toContain("There are keys already, so no demo was added");
    expect(service.out.match(/keys issue/g)).toHaveLength(1);
    expect(service.out).not.toContain("serves operators");
    expect(service.out).toContain("add --admin-listen 127.0.0.1:8081, and run\n");
  });

  test("leaves its operator to demo remove, which keeps the last admin but ends its sessions", async () => {
    // Elsewhere, because no later start adds the demo again.
    using elsewhere = createCommandLine({ prepared: true });
    await using service = await elsewhere.serve(["--demo"]);
    expect(service.out).toMatch(LINK);
    expect(await elsewhere.json(["demo", "remove"])).toMatchObject({ operator: "kept" });
  });
});
