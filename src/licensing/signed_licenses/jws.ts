/**
 * Signs and verifies with Ed25519, as a compact JWS (RFC 7515, RFC 8037) that any JOSE library reads.
 *
 * The algorithm is fixed: the header's `alg` is compared, never used to choose, so neither `none` nor a key that is used
 * as another algorithm's secret can pass.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from "node:crypto";
import * as v from "valibot";
import { decodeBase64url } from "../../base/base64url.ts";

export type NewKeyPair = ReturnType<typeof generateKeyPair>;

/** What is signed, as the header says it: nothing of one type passes as the other. */
const TYPES = { license: "license+jwt", manifest: "bundle+jwt" } as const;

type Kind = keyof typeof TYPES;

/** Generates a key pair from the system's random source. */
export function generateKeyPair() {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const x = rawPublicKey(publicKey);
  return {
    kid: thumbprintOf(x),
    /** 32 bytes as base64url. */
    publicKey: x,
    /** PKCS#8 as PEM. */
    privateKey: privateKey.export({ type: "pkcs8", format: "pem" }),
  };
}

/** Returns a public key of 32 bytes (base64url) as JWK (RFC 8037). Its `kid` is its thumbprint (RFC 7638). */
export function toJwk(publicKey: string) {
  return { kty: "OKP", crv: "Ed25519", x: publicKey, kid: thumbprintOf(publicKey), use: "sig", alg: "EdDSA" };
}

/** Returns a public key of 32 bytes (base64url) as PEM, for OpenSSL. */
export function toPem(publicKey: string): string {
  return publicKeyOf(publicKey).export({ type: "spki", format: "pem" });
}

/** Reads a private key (PKCS#8 as PEM) and checks that it belongs to the public key; undefined if it does not. */
export function openPrivateKey(pem: string, publicKey: string): KeyObject | undefined {
  let privateKey: KeyObject;
  try {
    privateKey = createPrivateKey(pem);
  } catch {
    return undefined;
  }
  const isItsKey =
    privateKey.asymmetricKeyType === "ed25519" && rawPublicKey(createPublicKey(privateKey)) === publicKey;
  return isItsKey ? privateKey : undefined;
}

const JwkSet = v.pipe(v.string(), v.parseJson(), v.object({ keys: v.array(v.unknown()) }));

const Ed25519Key = v.object({
  kty: v.literal("OKP"),
  crv: v.literal("Ed25519"),
  x: v.pipe(
    v.string(),
    // Another spelling of the same bytes would have another `kid`.
    v.check((x) => decodeBase64url(x)?.length === 32),
  ),
});

/** Reads the public keys (base64url) of a JWK set; keys of other kinds are left out. Undefined for any other text. */
export function parseJwks(text: string): string[] | undefined {
  const set = v.safeParse(JwkSet, text);
  return set.success ? set.output.keys.flatMap((key) => (v.is(Ed25519Key, key) ? [key.x] : [])) : undefined;
}

/** Signs the claims of a license, or of the manifest of a bundle. Returns three parts of base64url, joined by points. */
export function signClaims(
  claims: object,
  {
    kid,
    privateKey,
    kind = "license",
  }: { readonly kid: string; readonly privateKey: KeyObject; readonly kind?: Kind },
): string {
  const header = encode({ alg: "EdDSA", typ: TYPES[kind], kid });
  const signed = `${header}.${encode(claims)}`;
  return `${signed}.${sign(null, Buffer.from(signed), privateKey).toString("base64url")}`;
}

export type Verified =
  | { readonly ok: true; readonly kid: string; readonly claims: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly error: string };

/** The longest texts that are read: a license has about 1,000 characters, and a manifest about 500 for each file. */
export const MOST_CHARACTERS = { license: 16_384, manifest: 1_048_576 } as const satisfies Record<
  Kind,
  number
>;

/** Verifies the signature of a license with one of the trusted public keys (base64url). Checks no time and no audience. */
export function verifySignature(jws: string, trusted: readonly string[]): Verified {
  return verifyKind(jws, { kind: "license", trusted });
}

/** Verifies the signature of a manifest in the same way. */
export function verifyManifestSignature(jws: string, trusted: readonly string[]): Verified {
  return verifyKind(jws, { kind: "manifest", trusted });
}

function verifyKind(
  jws: string,
  { kind, trusted }: { readonly kind: Kind; readonly trusted: readonly string[] },
): Verified {
  const no = (error: string) => ({ ok: false, error }) as const;
  const most = MOST_CHARACTERS[kind];
  if (jws.length > most) return no(`it has more than ${most} characters`);
  const match = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/.exec(jws);
  if (match === null) return no("it is not three parts of base64url, joined by points");
  const [, head = "", payload = "", signature = ""] = match;
  const header = decodeObject(head);
  const claims = decodeObject(payload);
  if (header === undefined || claims === undefined) return no("a part of it is not a JSON object");
  if (header.alg !== "EdDSA" || header.typ !== TYPES[kind])
    return no(`its header is not that of a ${kind} (EdDSA, ${TYPES[kind]})`);
  const publicKey = trusted.find((key) => thumbprintOf(key) === header.kid);
  if (publicKey === undefined)
    return no(
      "none of the trusted keys has signed it; the list of keys may be too old, or the key was retired",
    );
  const bytes = decodeBase64url(signature);
  const isRight =
    bytes !== undefined && verify(null, Buffer.from(`${head}.${payload}`), publicKeyOf(publicKey), bytes);
  return isRight
    ? { ok: true, kid: String(header.kid), claims }
    : no("its signature does not fit its content");
}

/** Returns the thumbprint of a public key (RFC 7638). */
function thumbprintOf(x: string): string {
  // The members in the order of the RFC, without white space.
  return createHash("sha256")
    .update(JSON.stringify({ crv: "Ed25519", kty: "OKP", x }))
    .digest("base64url");
}

function publicKeyOf(x: string): KeyObject {
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
}

function rawPublicKey(key: KeyObject): string {
  return key.export({ format: "jwk" }).x ?? "";
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function decodeObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(decodeBase64url(text)?.toString("utf8") ?? "");
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
