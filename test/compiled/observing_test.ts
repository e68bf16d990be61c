/** Tests how operators and a service manager observe the executable: health, doctor, and the messages to the manager. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { readFindings } from "../cli/command_line.ts";
import { type DatagramReceiver, receiveDatagrams } from "../support/datagrams.ts";
import { ENDPOINTS } from "../support/endpoints.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { type Installed, install, isBuilt, TEST_LIMIT_MS } from "./installed.ts";

setDefaultTimeout(TEST_LIMIT_MS);

describe.skipIf(!isBuilt)("the executable, as operators observe it", () => {
  let installed: Installed;
  let manager: DatagramReceiver;

  beforeAll(() => {
    installed = install();
    manager = receiveDatagrams(join(installed.place.folder, "notify"));
  });
  afterAll(async () => {
    manager.close();
    await installed.remove();
  });

  test("waits in health for a service that is still starting, and reports when there is none", async () => {
    const port = String(await findFreePort());
    const health = async (...more: string[]) => {
      const args = ["health", "--url", `http://127.0.0.1:${port}`, "--json", ...more];
      const { status, out } = await installed.place.run(args);
      return { status, ...JSON.parse(out) };
    };
    const missing = { status: 1, healthy: false, error: expect.stringMatching(/\S/) };
    expect(await health()).toMatchObject(missing);
    const waiting = health("--wait", "30s");
    await installed.start({ args: ["--port", port] });
    expect(await waiting).toMatchObject({
      status: 0,
      healthy: true,
      http_status: 200,
      database: "connected",
    });
    await installed.service.stop();
  });

  test("has no fault for doctor, serves its OpenAPI document, and tells its manager that it is ready, lives and stops", async () => {
    const NOTIFY_SOCKET = join(installed.place.folder, "notify");
    const { url, stop } = await installed.start({ env: { NOTIFY_SOCKET, WATCHDOG_USEC: "400000" } });
    expect(await manager.until(/^READY=1/)).toBe(`READY=1\nSTATUS=Serving at ${url}; the database answers`);
    const { status, findings } = readFindings(await installed.run(["doctor", "--json"]));
    expect(status).toBe(0);
    const good = findings.filter(({ state }) => state === "ok").map(({ name }) => name);
    expect(findings[0]?.message).toEndWith(", installed as the plain executable");
    const fine = ["configuration", "data folder", "disk", "clock", "service", "database", "durability"];
    expect(good).toEqual(expect.arrayContaining([...fine, "schema", "secret", "model files"]));

    const document = await installed.get("/openapi.json");
    expect(document.openapi).toStartWith("3.1.");
    for (const { path, method } of Object.values(ENDPOINTS))
      expect(document.paths[path][method.toLowerCase()].responses).toBeDefined();

    await manager.until(/^WATCHDOG=1$/);
    expect(await stop("SIGTERM")).toBe(0);
    expect(await manager.until(/^STOPPING=1/)).toMatch(/^STOPPING=1\nSTATUS=Stopping: /);
  });
});
