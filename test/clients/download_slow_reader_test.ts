/** A download lasts as long as its client needs: the idle timeout ends only a download that nobody reads. */
import { afterAll, expect, test } from "bun:test";
import { truncateSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { useFolder } from "../support/use_folder.ts";

/** Bun 1.4.5 checks every 4 s: with less than 5 s it would also end downloads that are still read. */
const IDLE_SECONDS = 5;
const SIZE = 2_000_000_000;
/** More than all buffers between the file and its reader hold when a connection ends. */
const MOST_BUFFERED = 100_000_000;
const folder = useFolder();
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
afterAll(() => listener.stop(0));

/** Reads slowly for `seconds`, then as fast as possible; returns whether the service had cut it off. */
function isCutOff(bytesPerSecond: number, seconds: number): Promise<boolean> {
  return new Promise((resolve) => {
    const beganMs = performance.now();
    const elapsedSeconds = () => (performance.now() - beganMs) / 1_000;
    let received = 0;
    let receivedSlowly: number | undefined;
    const isServed = () => receivedSlowly !== undefined && received - receivedSlowly > MOST_BUFFERED;
    const socket = connect(listener.port, "127.0.0.1", () =>
      socket.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    );
    socket.on("data", (chunk) => {
      received += chunk.length;
      if (receivedSlowly === undefined) socket.pause();
      else if (isServed()) socket.destroy();
    });
    const timer = setInterval(() => {
      if (elapsedSeconds() > seconds) receivedSlowly ??= received;
      if (receivedSlowly !== undefined || received < elapsedSeconds() * bytesPerSecond) socket.resume();
    }, 1);
    socket.on("error", () => {});
    socket.on("close", () => {
      clearInterval(timer);
      resolve(!isServed());
    });
  });
}

test("listen() never ends an answer that is read, however slowly, and ends one that is not read", async () => {
  const paces = [20_000_000, 2_000_000, 0];
  expect(await Promise.all(paces.map((pace) => isCutOff(pace, 10)))).toEqual([false, false, true]);
}, 25_000);
