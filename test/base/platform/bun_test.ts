import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { bunPlatform } from "../../../src/base/platform/bun/mod.ts";
import { parseArchiveLabel } from "../../../src/base/platform/bun/pack_postgres.ts";
import type { Answer, Listener } from "../../../src/base/platform/mod.ts";
import { until } from "../../support/until.ts";
import { useFolder } from "../../support/use_folder.ts";
import { useUndo } from "../../support/use_undo.ts";

const files = useFolder();
const undo = useUndo();

async function listen(answer: Answer, port = 0): Promise<Listener> {
  const options = { host: "127.0.0.1", port, maxBodyBytes: 1000, idleTimeoutSeconds: 30, answer };
  const listener = await bunPlatform.listen(options);
  undo.push(() => listener.stop(0));
  return listener;
}

const urlOf = ({ host, port }: Listener) => `http://${host}:${port}/`;

describe("listen()", () => {
  test("answers on a port that the system chose, and knows the peer's address", async () => {
    const listener = await listen((request, peer) => new Response(peer.address(request)));
    expect(listener.port).toBeGreaterThan(0);
    expect(await (await fetch(urlOf(listener))).text()).toBe("127.0.0.1");
  });

  test("says which port is in use", async () => {
    const { port } = await listen(() => new Response());
    await expect(listen(() => new Response(), port)).rejects.toThrow(
      `Cannot listen on 127.0.0.1:${port}: the port is in use`,
    );
  });

  test("answers as the contract says if the file of an answer does not exist", async () => {
    const path = join(files, "nothing");
    const listener = await listen(() => new Response(bunPlatform.fileBody({ path, first: 0, end: 9 })));
    const response = await fetch(urlOf(listener));
    expect([response.status, response.headers.get("content-type")]).toEqual([500, "application/json"]);
    expect(await response.json()).toEqual({ error: "Internal error", code: "SERVER_ERROR" });
  });

  test("shows nothing of an error that the answer function throws", async () => {
    const listener = await listen(() => {
      throw new Error("topsecret");
    });
    const response = await fetch(urlOf(listener));
    expect([response.status, response.headers.get("content-type")]).toEqual([500, "application/json"]);
    expect(await response.json()).toEqual({ error: "Internal error", code: "SERVER_ERROR" });
  });

  test("stop() lets a request finish, though an idle connection stays open", async () => {
    const asked = Promise.withResolvers<void>();
    const listener = await listen(async () => {
      asked.resolve();
      // The stop comes before the answer.
      await Bun.sleep(150);
      return new Response("done");
    });
    const idle = connect(listener.port, listener.host);
    undo.push(() => idle.destroy());
    const answer = fetch(urlOf(listener)).then((response) => response.text());
    await asked.promise;
    const startedAt = performance.now();
    await listener.stop(3000);
    expect(performance.now() - startedAt).toBeLessThan(2900);
    expect(await answer).toBe("done");
    expect(await fetch(urlOf(listener)).catch(() => "closed")).toBe("closed");
  });

  test("stop() cuts a request off at the deadline", async () => {
    const asked = Promise.withResolvers<void>();
    const listener = await listen(() => {
      asked.resolve();
      return new Promise<Response>(() => {});
    });
    const answer = fetch(urlOf(listener)).catch(() => "cut off");
    await asked.promise;
    const startedAt = performance.now();
    await listener.stop(100);
    expect(performance.now() - startedAt).toBeLessThan(5000);
    expect(await answer).toBe("cut off");
  });
});

describe("tryLock()", () => {
  test("locks a file until it is released, and writes the holder into it", () => {
    const path = join(files, "lock");
    const lock = bunPlatform.tryLock(path);
    lock?.write("a longer text\n");
    lock?.write("serve 1\n");
    expect(readFileSync(path, "utf8")).toBe("serve 1\n");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(bunPlatform.tryLock(path)).toBeUndefined();
    lock?.release();
    lock?.release();
    expect(readFileSync(path, "utf8")).toBe("");
    bunPlatform.tryLock(path)?.release();
  });

  test("frees the lock when its holder ends, though a child process lives on", async () => {
    const path = join(files, "other-lock");
    const module = join(import.meta.dir, "../../../src/base/platform/bun/mod.ts");
    const script = `
      import { spawn } from "node:child_process";
      const { bunPlatform } = await import(${JSON.stringify(module)});
      if (!bunPlatform.tryLock(${JSON.stringify(path)})) process.exit(1);
      console.log(spawn("sleep", ["20"], { detached: true, stdio: "ignore" }).pid);
      process.kill(process.pid, "SIGKILL");`;
    const holder = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe" });
    const heir = Number(await holder.stdout.text());
    await holder.exited;
    undo.push(() => process.kill(heir, "SIGKILL"));
    expect(heir).toBeGreaterThan(0);
    // The parent goes on as soon as the child starts its program; the kernel closes the child's files a moment later.
    await until(() => bunPlatform.tryLock(path), { limitMs: 5_000 });
  });
});

describe("postgresArchive()", () => {
  test("unpacks a server that runs, without files that a server does not need", async () => {
    const archive = await bunPlatform.postgresArchive();
    expect(archive?.label).toMatch(/^18\.\d+-[0-9a-f]{8}$/);
    const folder = join(files, "postgres");
    mkdirSync(folder);
    await archive?.unpack(folder);
    expect(readdirSync(folder).sort()).toEqual(["bin", "lib", "share"]);
    const run = Bun.spawnSync([join(folder, "bin/postgres"), "--version"], { env: {} });
    expect(run.stdout.toString()).toContain(`(PostgreSQL) ${archive?.label.split("-")[0]}`);
    expect(statSync(join(folder, "share/postgresql/postgres.bki")).mode & 0o777).toBe(0o644);
    expect(readdirSync(join(folder, "bin")).sort()).toEqual(["initdb", "postgres"]);
  });

  test("reads its label from the name of its file", () => {
    expect(parseArchiveLabel("/x/postgres-18.6-3f2a9c1d.tar.zst")).toBe("18.6-3f2a9c1d");
    expect(parseArchiveLabel("sql/0001_first.sql")).toBeUndefined();
  });
});
