/** The platform on the pinned Node, and the bundle as it is delivered. */
import { beforeAll, describe, expect, test } from "bun:test";
import {
  closeSync,
  copyFileSync,
  existsSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { isBuiltin } from "node:module";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodePlatform } from "../../../src/base/platform/node/mod.ts";
import { NODE } from "../../support/node_process.ts";
import { sendRaw } from "../../support/raw_http.ts";
import { useFolder } from "../../support/use_folder.ts";
import { useUndo } from "../../support/use_undo.ts";

// Runs alone: it judges a time.

const root = join(import.meta.dir, "../../..");
/** This machine's own Node, if it is too old for the program. */
const OLDER_NODE = ["/usr/bin/node", "/usr/local/bin/node", Bun.which("node") ?? ""].find((path) => {
  if (!existsSync(path)) return false;
  const major = /^v(\d+)/.exec(String(Bun.spawnSync([path, "--version"]).stdout))?.[1];
  return major !== undefined && Number(major) < 24;
});
const undo = useUndo();
const folder = useFolder();
let program: string;
let bundle: string;

beforeAll(async () => {
  const entry = join(import.meta.dir, "node_listener.ts");
  const built = await Bun.build({
    entrypoints: [entry],
    outdir: folder,
    naming: "[name].mjs",
    target: "node",
  });
  if (!built.success) throw new Error(String(built.logs));
  program = join(folder, "node_listener.mjs");
  bundle = join(folder, "claviger.mjs");
  const make = [process.execPath, join(root, "src/build/node_bundle.ts"), "--outfile", bundle];
  const made = Bun.spawnSync(make, { cwd: folder });
  if (made.exitCode !== 0) throw new Error(made.stderr.toString());
});
async function listen({ port = 0, idleSeconds = 30, file = "" } = {}) {
  const command = [NODE, program, String(port), String(idleSeconds), file];
  const child = Bun.spawn(command, { stdin: "pipe", stdout: "pipe", stderr: "pipe" });
  undo.push(() => child.kill("SIGKILL"));
  let errors = "";
  void (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) errors += text;
  })();
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const next = async () => JSON.parse((await lines.read()).value ?? "null");
  const said = await next();
  return {
    ...said,
    url: `http://127.0.0.1:${said.port}`,
    child,
    errors: () => errors,
    async stop(deadlineMs: number): Promise<number> {
      child.stdin.write(`stop ${deadlineMs}\n`);
      child.stdin.flush();
      return (await next()).ms;
    },
  };
}

describe("listen()", () => {
  test("answers on a port that the system chose, and knows the peer's address", async () => {
    const { url, port, host } = await listen();
    expect({ host, port }).toEqual({ host: "127.0.0.1", port: expect.any(Number) });
    expect(await (await fetch(`${url}/peer`)).text()).toBe("127.0.0.1");
  });

  test("says which port is in use", async () => {
    const { port } = await listen();
    const { error } = await listen({ port });
    expect(error).toStartWith(`Error: Cannot listen on 127.0.0.1:${port}: the port is in use`);
  });

  for (const path of ["/throw", "/fail"]) {
    test(`shows nothing of an error that the answer function throws: ${path}`, async () => {
      const { url } = await listen();
      const response = await fetch(url + path);
      expect([response.status, response.headers.get("content-type")]).toEqual([500, "application/json"]);
      expect(await response.json()).toEqual({ error: "Internal error", code: "SERVER_ERROR" });
    });
  }

  test("stop() lets a request finish, though idle connections stay open", async () => {
    const { url, port, stop } = await listen();
    await (await fetch(`${url}/peer`)).text();
    const silent = connect(port, "127.0.0.1");
    undo.push(() => silent.destroy());
    const answer = fetch(`${url}/slow`).then((response) => response.text());
    // The other process does not report when the request has arrived.
    await Bun.sleep(50);
    expect(await stop(3_000)).toBeLessThan(2_900);
    expect(await answer).toBe("done");
    expect(await fetch(`${url}/peer`).catch(() => "closed")).toBe("closed");
  });

  test("stop() cuts a request off at the deadline", async () => {
    const { url, stop } = await listen();
    const answer = fetch(`${url}/never`).catch(() => "cut off");
    // The other process does not report when the request has arrived.
    await Bun.sleep(500);
    const ms = await stop(100);
    expect(ms).toBeGreaterThan(90);
    expect(ms).toBeLessThan(5_000);
    expect(await answer).toBe("cut off");
  });

  test("closes a connection on which nothing arrives", async () => {
    const { port } = await listen({ idleSeconds: 1 });
    const startedAt = performance.now();
    const silent = connect(port, "127.0.0.1");
    silent.on("error", () => {});
    await new Promise((resolve) => silent.on("close", resolve));
    expect(performance.now() - startedAt).toBeGreaterThan(900);
    expect(performance.now() - startedAt).toBeLessThan(15_000);
  });

  for (const [what, target, path] of [
    ["another host", "http://other.example:99999/a?b", "/a?b"],
    ["a user and no path", "HTTP://u:p@other", "/"],
    ["a query alone", "https://other?c=/d", "/?c=/d"],
    ["a backslash", "/a\\b?c\\d", "/a/b?c\\d"],
    ["dots", "/a/%2e%2E/b/./c", "/b/c"],
    ["two slashes", "//a//b", "//a//b"],
  ] as const) {
    test(`reads a target with ${what} like Bun`, async () => {
      const { url } = await listen();
      const [answer] = await sendRaw(url, `GET ${target} HTTP/1.1\r\nHost: a b?c\r\n\r\n`);
      expect(answer).toMatchObject({ status: 200, text: `GET http://localhost${path} ` });
    });
  }

  test("sends a whole file or a range, and reads it no faster than its client", async () => {
    const file = join(folder, "large");
    const sizeBytes = 300 * 1024 * 1024;
    const handle = openSync(file, "w");
    ftruncateSync(handle, sizeBytes);
    writeSync(handle, "middle", 200 * 1024 * 1024);
    closeSync(handle);
    const { url } = await listen({ file });
    const peakKilobytes = async () => Number(await (await fetch(`${url}/peak`)).text());
    const before = await peakKilobytes();
    const whole = await fetch(`${url}/file`);
    expect(whole.headers.get("content-length")).toBe(String(sizeBytes));
    // The other process would read too far ahead within this time, and must not.
    await Bun.sleep(300);
    let received = 0;
    for await (const chunk of whole.body ?? []) received += chunk.length;
    expect(received).toBe(sizeBytes);
    const from = 200 * 1024 * 1024;
    const part = await fetch(`${url}/file`, { headers: { Range: `${from}-${from + 5}` } });
    expect(await part.text()).toBe("middle");
    expect((await peakKilobytes()) - before).toBeLessThan(120 * 1024);
  });

  test("sends the file that existed at the request, and closes the connection if it cannot read the rest", async () => {
    const file = join(folder, "shrinking");
    const sizeBytes = 20_000_000;
    writeFileSync(file, Buffer.alloc(sizeBytes, "a"));
    const { url, errors } = await listen({ file });
    const kept = await fetch(`${url}/file`);
    renameSync(file, `${file}.away`);
    mkdirSync(file);
    expect((await kept.bytes()).length).toBe(sizeBytes);
    // A connection stays open after a complete file.
    rmdirSync(file);
    renameSync(`${file}.away`, file);
    const request = "GET /file HTTP/1.1\r\nHost: h\r\nRange: 0-99999\r\n\r\n";
    const two = await sendRaw(url, request + request, { answers: 2 });
    expect(two.map(({ status, text }) => [status, text.length])).toEqual([
      [200, 100_000],
      [200, 100_000],
    ]);
    renameSync(file, `${file}.away`);
    mkdirSync(file);
    // A folder can be opened but not read.
    await expect(
      fetch(`${url}/file`, { headers: { Range: "0-9" } }).then((it) => it.text()),
    ).rejects.toThrow();
    rmdirSync(file);
    renameSync(`${file}.away`, file);

    const shrinking = await fetch(`${url}/file`);
    truncateSync(file, 1);
    await expect(shrinking.bytes()).rejects.toThrow();
    // Only the log writes to standard error.
    expect(errors()).toBe("");
  });

  test("answers a request with any Expect header", async () => {
    const { url } = await listen();
    const head = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect:";
    for (const expectation of ["100-continue", "something-else"]) {
      const [answer] = await sendRaw(url, `${head} ${expectation}\r\n\r\n{}`);
      expect(answer).toMatchObject({ status: 200, text: "POST http://localhost/a {}" });
    }
  });
});

test("tryLock() and postgresArchive() say that no PostgreSQL is embedded", async () => {
  expect(() => nodePlatform.tryLock("/nowhere/lock")).toThrow("set DATABASE_URL");
  expect(await nodePlatform.postgresArchive()).toBeUndefined();
});

describe("claviger.mjs", () => {
  const run = (args: readonly string[], node = NODE) => {
    const cwd = mkdtempSync(join(tmpdir(), "claviger-alone-"));
    undo.push(() => rmSync(cwd, { recursive: true, force: true }));
    copyFileSync(bundle, join(cwd, "claviger.mjs"));
    const ended = Bun.spawnSync([node, "claviger.mjs", ...args], { cwd, env: {} });
    const left = readdirSync(cwd).filter((name) => name !== "claviger.mjs");
    return { status: ended.exitCode, out: String(ended.stdout), err: String(ended.stderr), left };
  };

  test("runs without any other file in its folder", () => {
    expect(run(["version"])).toMatchObject({
      status: 0,
      out: expect.stringMatching(/^claviger \d/),
      err: "",
    });
  });

  test.skipIf(OLDER_NODE === undefined)("says on an older Node which version it needs", () => {
    expect(run(["version"], OLDER_NODE)).toMatchObject({
      status: 1,
      out: "",
      err: expect.stringMatching(/^claviger: Cannot run on Node \d+\.[\d.]+: Node 24 or newer is needed\n$/),
    });
  });

  test("renders pages without the positions in the source that help in development", async () => {
    const text = await Bun.file(bundle).text();
    expect(text).toContain("jsxDEV(");
    expect(text).not.toContain(",void 0,!1,void 0,this)");
  });

  test("imports only modules that are part of Node", async () => {
    const { imports } = await new Bun.Transpiler({ loader: "js" }).scan(await Bun.file(bundle).text());
    expect(imports.map(({ path }) => path).filter((path) => !isBuiltin(path))).toEqual([]);
    expect(imports.length).toBeGreaterThan(5);
  });

  test("serve without a database says that none is embedded, and leaves no file behind", () => {
    expect(run(["serve", "--env-file", "/dev/null", "--data-dir", "data", "--port", "0"])).toEqual({
      status: 78,
      out: "",
      err: "claviger: Cannot start a database: this build has no PostgreSQL inside; set DATABASE_URL\n",
      left: [],
    });
  });
});
