import { expect, test } from "bun:test";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock as clock } from "../../src/clock.ts";
import { createLog } from "../../src/log.ts";
import { bunPlatform } from "../../src/platform/bun/mod.ts";
import type { Listener } from "../../src/platform/mod.ts";
import { isRefusal } from "../../src/refusal.ts";
import { createCertificate, readTlsIdentity } from "../../src/tls/mod.ts";
import { makeCertificate, shownFingerprint } from "../support/certificates.ts";
import { createTestClock } from "../support/clock.ts";
import { useFolder } from "../support/use_folder.ts";

const folder = useFolder();

test("createCertificate() keeps a certificate that clients accept when the new one is not valid yet or any more", async () => {
  const readPair = (name: string, days: number) => {
    const files = makeCertificate(folder, name, days);
    const tls = readTlsIdentity(files);
    if (isRefusal(tls)) throw new Error(tls.sentence);
    return { files, tls };
  };
  // The first is valid from three days ago until two days ago, the second from yesterday on.
  const [past, present] = [readPair("past", -2), readPair("present", 30)];
  for (const [shown, next, agoDays, why] of [
    [past, present, 2.5, "is valid only from"],
    [present, past, 0, "expired at"],
  ] as const) {
    const renewed: unknown[] = [];
    const listener = { renewTls: async (tls: unknown) => void renewed.push(tls) } as unknown as Listener;
    const lines: string[] = [];
    const log = createLog({ format: "json", clock, write: (line) => lines.push(line) });
    const then = createTestClock(new Date(Date.now() - agoDays * 86_400_000).toISOString());
    const options = { files: next.files, listeners: [listener], clock: then, log };
    await createCertificate(shown.tls, options).reload();
    expect(renewed).toEqual([]);
    expect(lines.join("")).toContain("The certificate was not changed: the one before is kept");
    expect(lines.join("")).toContain(why);
  }
});

test("createCertificate() warns at its start, renews it on every listener at a reload, and ignores a reload after its stop", async () => {
  const files = { certFile: join(folder, "crt"), keyFile: join(folder, "key") };
  const put = (name: string, days: number) => {
    const made = makeCertificate(folder, name, days);
    copyFileSync(made.certFile, files.certFile);
    copyFileSync(made.keyFile, files.keyFile);
    return made.fingerprint;
  };
  put("ending", 3);
  const tls = readTlsIdentity(files);
  if (isRefusal(tls)) throw new Error(tls.sentence);
  const answer = () => new Response("ok");
  const options = { host: "127.0.0.1", port: 0, maxBodyBytes: 1000, idleTimeoutSeconds: 30, answer, tls };
  const listeners = [await bunPlatform.listen(options), await bunPlatform.listen(options)];
  const shown = async () => {
    const fingerprints = listeners.map(async ({ port }) => (await shownFingerprint(port)).fingerprint);
    return await Promise.all(fingerprints);
  };
  try {
    const lines: string[] = [];
    const log = createLog({ format: "json", clock, write: (line) => lines.push(line) });
    const certificate = createCertificate(tls, { files, listeners, clock, log });
    expect(lines).toEqual([]);
    await certificate.start();
    expect(lines.join("")).toContain("The certificate expires at");

    const renewed = put("renewed", 30);
    await certificate.reload();
    expect(await shown()).toEqual([renewed, renewed]);

    put("late", 40);
    await certificate.stop();
    await certificate.reload();
    expect(await shown()).toEqual([renewed, renewed]);
  } finally {
    for (const listener of listeners) await listener.stop(0);
  }
});
