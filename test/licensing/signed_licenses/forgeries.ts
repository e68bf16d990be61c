/** Verifies licenses with software that is not ours, and makes the forgeries that every verifier must refuse. */
import { createHmac, createPrivateKey, sign } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from "jose";
import {
  generateKeyPair,
  type NewKeyPair,
  openPrivateKey,
  signClaims,
} from "../../../src/licensing/signed_licenses/jws.ts";
import { toJwk, toPem } from "../../../src/licensing/signed_licenses/mod.ts";

export const AT = new Date("2026-11-20T12:00:00Z");
const AT_S = AT.getTime() / 1_000;

/** Two pairs of keys, as a service has them. */
export const KEYS = [generateKeyPair(), generateKeyPair()] as const;
export const TRUSTED = KEYS.map(({ publicKey }) => publicKey);
const JWKS = { keys: TRUSTED.map(toJwk) } as unknown as JSONWebKeySet;

/** Signs a license that is valid for a week from {@linkcode AT}; `claims` replace or add some. */
export function signSample(claims: object = {}, pair: NewKeyPair = KEYS[0]): string {
  const privateKey = openPrivateKey(pair.privateKey, pair.publicKey);
  if (privateKey === undefined) throw new Error("The private key cannot be opened");
  const week = { iat: AT_S, nbf: AT_S, exp: AT_S + 7 * 86_400 };
  const facts = { iss: "svc", aud: "svc", sub: "lic_1", jti: "1", key_id: "key_1", license_type: "research" };
  return signClaims({ ...facts, ...week, ...claims }, { kid: pair.kid, privateKey });
}

/** Verifies as `jose` does with pinned keys. */
export async function isAcceptedByJose(license: string, currentDate = AT): Promise<boolean> {
  const options = { algorithms: ["EdDSA"], audience: "svc", typ: "license+jwt", currentDate };
  try {
    await jwtVerify(license, createLocalJWKSet(JWKS), options);
    return true;
  } catch {
    return false;
  }
}

/** Verifies the signatures of licenses with the command `openssl`; returns the indexes of those that it accepts. */
export function acceptedByOpenSsl(licenses: readonly string[], publicKey: string): number[] {
  const folder = mkdtempSync(join(tmpdir(), "claviger-forgeries-"));
  try {
    writeFileSync(join(folder, "key.pem"), toPem(publicKey));
    for (const [index, license] of licenses.entries()) {
      const end = license.lastIndexOf(".");
      writeFileSync(join(folder, `${index}.signed`), license.slice(0, end));
      writeFileSync(join(folder, `${index}.signature`), Buffer.from(license.slice(end + 1), "base64url"));
    }
    // One shell for all of them: starting a process from here costs ten times as much.
    const script = `for name in *.signed; do
      openssl pkeyutl -verify -rawin -pubin -inkey key.pem -in "$name" -sigfile "\${name%.signed}.signature" \
        > /dev/null 2>&1 && echo "\${name%.signed}"; done; true`;
    const { stdout, exitCode } = Bun.spawnSync(["bash", "-c", script], { cwd: folder });
    if (exitCode !== 0) throw new Error("The shell failed");
    return stdout.toString().split("\n").filter(Boolean).map(Number);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Returns the license once for each of its characters, with another character there. */
export function changeEachCharacter(license: string): string[] {
  return [...license].map((character, at) => {
    // Of the last character of a signature only the two highest bits count: "A", "Q", "g" or "w".
    const other = at === license.length - 1 ? (character === "A" ? "Q" : "A") : character === "B" ? "C" : "B";
    return license.slice(0, at) + other + license.slice(at + 1);
  });
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

/** Makes licenses with other headers, by somebody who knows the public keys and a good license. */
export function forgeHeaders(license: string): Record<string, string> {
  const [head = "", payload = "", signature = ""] = license.split(".");
  const { kid, publicKey } = KEYS[0];
  const header = { alg: "EdDSA", typ: "license+jwt", kid };
  const hs256 = (secret: string | Buffer) => {
    const signed = `${encode({ ...header, alg: "HS256" })}.${payload}`;
    return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
  };
  // Our own key signs these headers, as another program with the key might do.
  const signed = (changes: object) => {
    const text = `${encode({ ...header, ...changes })}.${payload}`;
    return `${text}.${sign(null, Buffer.from(text), createPrivateKey(KEYS[0].privateKey)).toString("base64url")}`;
  };
  const own = generateKeyPair();
  const stranger = signSample({}, own);
  const [, theirs = "", theirSignature = ""] = stranger.split(".");
  return {
    "alg none": `${encode({ ...header, alg: "none" })}.${payload}.`,
    "alg none, with the signature": `${encode({ ...header, alg: "none" })}.${payload}.${signature}`,
    "HS256 with the bytes of the public key": hs256(Buffer.from(publicKey, "base64url")),
    "HS256 with the text of the public key": hs256(publicKey),
    "HS256 with the PEM of the public key": hs256(toPem(publicKey)),
    "alg none, signed": signed({ alg: "none" }),
    "alg HS256, signed": signed({ alg: "HS256" }),
    "alg Ed25519, signed": signed({ alg: "Ed25519" }),
    "another typ, signed": signed({ typ: "JWT" }),
    "no typ, signed": signed({ typ: undefined }),
    "the kid of the other key, signed": signed({ kid: KEYS[1].kid }),
    "the kid of the other key": `${encode({ ...header, kid: KEYS[1].kid })}.${payload}.${signature}`,
    "an unknown kid": `${encode({ ...header, kid: "unknown" })}.${payload}.${signature}`,
    "no kid": `${encode({ alg: "EdDSA", typ: "license+jwt" })}.${payload}.${signature}`,
    "another typ": `${encode({ ...header, typ: "JWT" })}.${payload}.${signature}`,
    "a key of the forger": stranger,
    "a key of the forger with our kid": `${encode(header)}.${theirs}.${theirSignature}`,
    "a key of the forger inside": `${encode({ ...header, jwk: toJwk(own.publicKey) })}.${theirs}.${theirSignature}`,
    "no signature": `${head}.${payload}.`,
    "two parts": `${head}.${payload}`,
    "four parts": `${license}.${signature}`,
  };
}
