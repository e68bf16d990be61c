import { expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock as clock } from "../../src/clock.ts";
import { createLog } from "../../src/log.ts";
import { bunPlatform } from "../../src/platform/bun/mod.ts";
import { isRefusal } from "../../src/refusal.ts";
import { createCertificate, readTlsIdentity } from "../../src/tls/mod.ts";
import { makeCertificate, shownFingerprint } from "../support/certificates.ts";

setDefaultTimeout(30_000);

test("createCertificate() warns at its start, renews it on every listener at a reload, and ignores a reload after its stop", async () => {
  const folder = mkdtempSync(join(tmpdir(), "claviger-tls-"));
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
    rmSync(folder, { recursive: true, force: true });
  }
});
