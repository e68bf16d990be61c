/** A file takes as long as its reader needs: the idle timeout ends only what nobody reads. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bunPlatform } from "../../src/platform/bun/mod.ts";

/** Bun 1.4.5 looks every 4 s: below 5 it would end what is still read, too. */
const IDLE_SECONDS = 5;
const SIZE = 2_000_000_000;
const folder = mkdtempSync(join(tmpdir(), "claviger-slow-"));
const path = join(folder, "file");
writeFileSync(path, "");
truncateSync(path, SIZE);

const listener = await bunPlatform.listen({
  host: "127.0.0.1",
  port: 0,
  maxBodyBytes: 1_000,
  idleTimeoutSeconds: IDLE_SECONDS,
  answer: () => new Response(bunPlatform.fileBody({ path, first: 0, end: SIZE })),
});
afterAll(async () => {
  await listener.stop(0);
  rmSync(folder, { recursive: true });
});

/** Reads at a pace for so many seconds, then for a moment as fast as it can; tells whether it was cut off. */
function isCutOff(bytesPerSecond: number, seconds: number): Promise<boolean> {
  return new Promise((resolve) => {
    const beganMs = performance.now();
    const elapsedSeconds = () => (performance.now() - beganMs) / 1_000;
    let received = 0;
    let isOver = false;
    const socket = connect(listener.port, "127.0.0.1", () =>
      socket.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    );
    socket.on("data", (chunk) => {
      received += chunk.length;
      if (elapsedSeconds() < seconds) socket.pause();
    });
    const timer = setInterval(() => {
      if (elapsedSeconds() > seconds || received < elapsedSeconds() * bytesPerSecond) socket.resume();
      if (elapsedSeconds() < seconds + 0.3) return;
      isOver = true;
      socket.destroy();
    }, 1);
    socket.on("error", () => {});
    socket.on("close", () => {
      clearInterval(timer);
      resolve(!isOver);
    });
  });
}

test("listen() lets an answer last while it is read, however slowly, and ends one that is not", async () => {
  const paces = [20_000_000, 2_000_000, 0];
  expect(await Promise.all(paces.map((pace) => isCutOff(pace, 10)))).toEqual([false, false, true]);
}, 15_000);
