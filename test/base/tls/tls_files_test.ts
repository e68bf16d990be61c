import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { isRefusal } from "../../../src/base/refusal.ts";
import { type LoadedCertificate, loadCertificate, tlsWarning } from "../../../src/base/tls/mod.ts";
import { makeCertificate } from "../../support/certificates.ts";
import { sentenceOf } from "../../support/issue.ts";
import { useFolder } from "../../support/use_folder.ts";

const folder = useFolder();

test("loadCertificate() reads every certificate of a chain, and shows the first", () => {
  const [own, other] = [makeCertificate(folder, "own"), makeCertificate(folder, "other")];
  const certFile = join(folder, "chain");
  const read = (chain: string) => {
    writeFileSync(certFile, chain);
    return loadCertificate({ certFile, keyFile: own.keyFile });
  };
  const found = read(own.certificate + other.certificate);
  expect(isRefusal(found) ? found : found.fingerprint).toBe(own.fingerprint);
  const damaged = other.certificate.replace("MII", "III");
  expect(damaged).not.toBe(other.certificate);
  for (const chain of [own.certificate + damaged, damaged + own.certificate]) {
    expect(sentenceOf(read(chain))).toContain(`the file ${certFile} is no certificate in PEM form`);
  }
});

describe("tlsWarning()", () => {
  const expiresAt = new Date("2026-12-31T12:00:00Z");
  const identity = { validFrom: new Date("2026-10-01T12:00:00Z"), expiresAt } as LoadedCertificate;

  test.each([
    ["2026-10-01T11:59:59.999Z", "The certificate is valid only from 2026-10-01T12:00:00Z"],
    ["2026-10-01T12:00:00Z", undefined],
    ["2026-12-17T12:00:00Z", undefined],
    ["2026-12-17T12:00:00.001Z", "The certificate expires at 2026-12-31T12:00:00Z, in 13 days"],
    ["2026-12-30T00:00:00Z", "The certificate expires at 2026-12-31T12:00:00Z, in 1 day"],
    ["2026-12-31T12:00:00Z", "The certificate expired at 2026-12-31T12:00:00Z"],
  ])("warns fourteen days before the expiry: at %s %p", (at, warning) => {
    expect(tlsWarning(identity, new Date(at))?.split(": ")[0]).toBe(warning);
  });
});
