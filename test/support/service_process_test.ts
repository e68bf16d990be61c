/** Processes that fail to start or to stop. Many other tests show that the others work. */
import { expect, test } from "bun:test";
import { type ProcessOptions, spawnService } from "./service_process.ts";

const shell = (script: string, options: Partial<ProcessOptions> = {}) =>
  spawnService(["sh", "-c", script], { cwd: "/", env: {}, ...options });

test("untilServing() throws with the output of a process that ended", async () => {
  const service = shell("echo first; echo second >&2; exit 3");
  await expect(service.untilServing()).rejects.toThrow(/It ended with 3: first\nsecond\n$/);
});

test("untilServing() kills a process that prints no address in time", async () => {
  const service = shell("echo waiting; exec sleep 60", { limitMs: 200 });
  await expect(service.untilServing()).rejects.toThrow(/within 0\.2 s.*: waiting\n$/);
  expect(await service.ended).toBe(137);
});

test("untilHealthy() kills a process whose address does not answer in time", async () => {
  const service = shell("echo It serves at http://127.0.0.1:1; exec sleep 60", { limitMs: 200 });
  await expect(service.untilHealthy()).rejects.toThrow("within 0.2 s: it is healthy");
  expect(await service.ended).toBe(137);
});

test("stop() kills a process that ignores the signal, after the limit", async () => {
  const service = shell("trap '' TERM; echo It serves at http://127.0.0.1:1; while :; do sleep 0.1; done");
  await service.untilServing();
  expect(await service.stop("SIGTERM", 200)).toBe(137);
});
