/** A license is accepted by `jose`, OpenSSL and our own code, and each of them refuses every change of it. */
import { describe, expect, test } from "bun:test";
import {
  checkLicense,
  parseJwks,
  parseLicenseFile,
  toJwk,
  verifySignature,
} from "../../../src/licensing/signed_licenses/mod.ts";
import {
  AT,
  acceptedByOpenSsl,
  changeEachCharacter,
  forgeHeaders,
  isAcceptedByJose,
  KEYS,
  signSample,
  TRUSTED,
} from "./forgeries.ts";

const license = signSample({ nonce: "n-1", fingerprint: "host-7" });
const check = (text: string, options: object = {}) =>
  checkLicense(text, { trusted: TRUSTED, audience: "svc", now: AT, ...options });
const isAccepted = (text: string, options: object = {}) => {
  const checked = check(text, options);
  return checked.ok && checked.why === undefined;
};
const later = (seconds: number) => new Date(AT.getTime() + seconds * 1_000);

test("Every verifier accepts a license of either key", async () => {
  for (const pair of KEYS) {
    const signed = signSample({}, pair);
    expect([await isAcceptedByJose(signed), isAccepted(signed)]).toEqual([true, true]);
    expect(acceptedByOpenSsl([signed], pair.publicKey)).toEqual([0]);
  }
});

test("No verifier accepts a license with one character changed", async () => {
  const changed = changeEachCharacter(license);
  for (const [at, text] of changed.entries()) {
    expect({ at, good: [await isAcceptedByJose(text), isAccepted(text)] }).toEqual({
      at,
      good: [false, false],
    });
  }
  // `forgeries_proof.ts` shows OpenSSL each of them.
  const some = changed.filter((_, at) => at % 40 === 0 || at === changed.length - 1);
  expect(acceptedByOpenSsl([license, ...some], KEYS[0].publicKey)).toEqual([0]);
});

test("verifySignature() accepts one spelling of a signature: other software ignores the last four bits", () => {
  const last = license.at(-1) ?? "";
  const spellings = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_="].map(
    (character) => license.slice(0, -1) + character,
  );
  const accepted = [...spellings, `${license}=`, `${license}A`, ` ${license}`].filter(
    (text) => verifySignature(text, TRUSTED).ok,
  );
  expect(accepted).toEqual([license]);
  expect("AQgw").toContain(last);
});

describe("No verifier accepts a license with another header:", () => {
  for (const [what, forged] of Object.entries(forgeHeaders(license))) {
    test(what, async () => {
      expect([await isAcceptedByJose(forged), isAccepted(forged)]).toEqual([false, false]);
    });
  }
});

test("parseLicenseFile() reads the first frame of a file, whatever stands around it, or a license alone", () => {
  const frame = (text: string) =>
    `-----BEGIN LICENSE-----\nMachine: -----END LICENSE-----\n\n${text.replaceAll(/(.{64})/g, "$1\n")}\n-----END LICENSE-----\n`;
  const second = frame(signSample({ jti: "2" }));
  for (const text of [
    frame(license),
    `Dear Ada,\n\n${frame(license)}\nBye\n`,
    `${frame(license)}${second}`,
  ]) {
    expect(parseLicenseFile(text)).toBe(license);
    expect(parseLicenseFile(text.replaceAll("\n", "\r\n"))).toBe(license);
  }
  expect(parseLicenseFile(`${license}\n`)).toBe(license);
  for (const text of ["", "-----BEGIN LICENSE-----\n", `-----BEGIN LICENSE-----\n\n${license}\n`, "a.b"]) {
    expect(parseLicenseFile(text)).toBeUndefined();
  }
});

test("parseJwks() takes the Ed25519 keys of a set, and leaves out everything else", () => {
  const key = toJwk(TRUSTED[0] ?? "");
  const others = [
    ...[null, 7, "key", [], {}, { ...key, kty: "EC" }, { ...key, crv: "X25519" }, { ...key, x: undefined }],
    ...[{ toString: 1 }, 7, "", `${key.x}A`, key.x.slice(1), `${"A".repeat(42)}B`].map((x) => ({
      ...key,
      x,
    })),
  ];
  expect(parseJwks(JSON.stringify({ keys: [...others, key] }))).toEqual([key.x]);
  for (const text of ["", "null", "[]", "{}", '{"keys":{}}', '{"keys":"x"}']) {
    expect(parseJwks(text)).toBeUndefined();
  }
});

describe("checkLicense()", () => {
  test("refuses a license of another audience, also of a list, and one without an audience", async () => {
    for (const aud of ["other", ["svc"], undefined, null, 7, { toString: 1 }]) {
      expect(isAccepted(signSample({ aud }))).toBe(false);
      if (!Array.isArray(aud)) expect(await isAcceptedByJose(signSample({ aud }))).toBe(false);
    }
    expect(check(license, { audience: "other" })).toMatchObject({ why: "it is for svc, not for other" });
    expect(check(signSample({ aud: ["svc"] }))).toMatchObject({ why: "its audience is no text" });
  });

  test("refuses a license from the second of its expiry on", async () => {
    for (const [seconds, good] of [
      [7 * 86_400 - 1, true],
      [7 * 86_400, false],
      [7 * 86_400 + 1, false],
    ] as const) {
      const now = later(seconds);
      expect([await isAcceptedByJose(license, now), isAccepted(license, { now })]).toEqual([good, good]);
    }
    expect(check(license, { now: later(7 * 86_400) })).toMatchObject({ why: "it has expired" });
  });

  test("allows five minutes for the clock of the signer", () => {
    expect(isAccepted(license, { now: later(-300) })).toBe(true);
    expect(check(license, { now: later(-301) })).toMatchObject({ why: "it is not valid yet" });
    const seconds = AT.getTime() / 1_000;
    for (const name of ["nbf", "iat"]) {
      expect(isAccepted(signSample({ [name]: seconds + 300 }))).toBe(true);
      expect(isAccepted(signSample({ [name]: seconds + 301 }))).toBe(false);
    }
  });

  test("refuses a license whose times are missing or are no whole numbers", () => {
    for (const name of ["exp", "nbf", "iat"]) {
      for (const wrong of [undefined, null, "2030-01-01", 1e300, 1_900_000_000.5, {}]) {
        expect(check(signSample({ [name]: wrong }))).toMatchObject({ ok: true, why: "it has no times" });
      }
    }
  });

  test("refuses texts of every length and kind, and never throws", () => {
    const part = (text: string) => Buffer.from(text).toString("base64url");
    const [head = "", payload = "", signature = ""] = license.split(".");
    const deep = part("[".repeat(6_000));
    const lengths = [0, 1, 32, 63, 65, 128].map((bytes) => Buffer.alloc(bytes, 7).toString("base64url"));
    const texts = [
      ...["", ".", "..", "...", "a.b.c", license.repeat(40), `${head}.${payload}.${"A".repeat(100_000)}`],
      ...["null", "[]", "1", '"x"', "{", ""].flatMap((text) => [
        `${part(text)}.${payload}.${signature}`,
        `${head}.${part(text)}.${signature}`,
      ]),
      ...[`${deep}.${payload}.${signature}`, `${head}.${deep}.${signature}`],
      ...lengths.map((wrong) => `${head}.${payload}.${wrong}`),
    ];
    for (const text of texts) expect(check(text)).toEqual({ ok: false, error: expect.any(String) });
  });
});
