import { expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock as clock } from "../../../src/base/clock.ts";
import { createLog } from "../../../src/base/log.ts";
import { bunPlatform } from "../../../src/base/platform/bun/mod.ts";
import type { Listener } from "../../../src/base/platform/mod.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { createCertificate, loadCertificate } from "../../../src/base/tls/mod.ts";
import { makeCertificate, shownFingerprint } from "../../support/certificates.ts";
import { createTestClock } from "../../support/clock.ts";
import { useFolder } from "../../support/use_folder.ts";

const folder = useFolder();

const readPair = (name: string, days: number) => {
  const files = makeCertificate(folder, name, days);
  const tls = loadCertificate(files);
  if (isRefusal(tls)) throw new Error(tls.sentence);
  return { files, tls };
};

test("createCertificate() keeps a certificate that clients accept when the new one is not valid yet or any more", async () => {
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
    const certificate = createCertificate(shown.tls, options);
    await certificate.reload();
    expect(renewed).toEqual([]);
    expect(lines.join("")).toContain("The certificate was not changed: the one before is kept");
    expect(lines.join("")).toContain(why);
    expect(certificate.expiresAt()).toEqual(shown.tls.expiresAt);
  }
});

test("createCertificate() replaces a certificate that clients refuse by any other, since they can only gain", async () => {
  const [past, present] = [readPair("gone", -2), readPair("coming", 30)];
  const renewed: unknown[] = [];
  const listener = { renewTls: async (tls: unknown) => void renewed.push(tls) } as unknown as Listener;
  const log = createLog({ format: "json", clock, write() {} });
  // The first is not valid any more, and the second not yet.
  const between = createTestClock(new Date(Date.now() - 1.5 * 86_400_000).toISOString());
  const options = { files: present.files, listeners: [listener], clock: between, log };
  const certificate = createCertificate(past.tls, options);
  await certificate.reload();
  expect(renewed).toEqual([present.tls]);
  expect(certificate.expiresAt()).toEqual(present.tls.expiresAt);
});

test("createCertificate() warns at its start, renews it on every listener at a reload, and ignores a reload after its stop", async () => {
  const files = { certFile: join(folder, "crt"), keyFile: join(folder, "key") };
  const put = (name: string, days: number) => {
    const made = makeCertificate(folder, name, days);
    copyFileSync(made.certFile, files.certFile);
    copyFileSync(made.keyFile, files.keyFile);
    return made;
  };
  put("ending", 3);
  const tls = loadCertificate(files);
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

    const { fingerprint: renewed, certificate: pem } = put("renewed", 30);
    lines.length = 0;
    await certificate.reload();
    expect(await shown()).toEqual([renewed, renewed]);
    // Alerts and the next reload go by the new certificate.
    expect(certificate.expiresAt()).toEqual(new X509Certificate(pem).validToDate);
    expect(lines.join("")).not.toContain("The certificate expires at");
    await certificate.reload();
    expect(lines.join("")).toContain("The certificate is the same as before");

    put("late", 40);
    await certificate.stop();
    await certificate.reload();
    expect(await shown()).toEqual([renewed, renewed]);
  } finally {
    for (const listener of listeners) await listener.stop(0);
  }
});
