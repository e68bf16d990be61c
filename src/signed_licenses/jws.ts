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

/** A public key as JWK (RFC 8037). */
export interface PublicJwk {
  readonly kty: "OKP";
  readonly crv: "Ed25519";
  /** 32 bytes as base64url. */
  readonly x: string;
  /** The thumbprint of the key (RFC 7638). */
  readonly kid: string;
  readonly use: "sig";
  readonly alg: "EdDSA";
}

export interface NewKeyPair {
  readonly kid: string;
  /** 32 bytes as base64url. */
  readonly publicKey: string;
  /** PKCS#8 as PEM. */
  readonly privateKey: string;
}

const TYPE = "license+jwt";

/** Generates a key pair from the system's random source. */
export function generateKeyPair(): NewKeyPair {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const x = rawPublicKey(publicKey);
  return {
    kid: thumbprintOf(x),
    publicKey: x,
    privateKey: privateKey.export({ type: "pkcs8", format: "pem" }),
  };
}

/** Returns a public key of 32 bytes (base64url) as JWK. */
export function toJwk(publicKey: string): PublicJwk {
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

/** Reads the public keys (base64url) of a JWK set; keys of other kinds are left out. Undefined for any other text. */
export function parseJwks(text: string): string[] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const keys: unknown =
    typeof value === "object" && value !== null && "keys" in value ? value.keys : undefined;
  if (!Array.isArray(keys)) return undefined;
  return keys.flatMap((key: Partial<PublicJwk> | null) => {
    return key?.kty === "OKP" && key.crv === "Ed25519" && isPublicKey(key.x) ? [key.x] : [];
  });
}

/** Tells whether a value is 32 bytes in their one valid spelling: another spelling would have another `kid`. */
function isPublicKey(x: unknown): x is string {
  if (typeof x !== "string") return false;
  const bytes = Buffer.from(x, "base64url");
  return bytes.length === 32 && bytes.toString("base64url") === x;
}

/** Signs claims. Returns three parts of base64url, joined by points. */
export function signClaims(
  claims: object,
  { kid, privateKey }: { readonly kid: string; readonly privateKey: KeyObject },
): string {
  const header = encode({ alg: "EdDSA", typ: TYPE, kid });
  const signed = `${header}.${encode(claims)}`;
  return `${signed}.${sign(null, Buffer.from(signed), privateKey).toString("base64url")}`;
}

export type Verified =
  | { readonly ok: true; readonly kid: string; readonly claims: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly error: string };

/** The longest text that is read: a license has about 1,000 characters. */
const MAX_CHARACTERS = 16_384;

/** Verifies the signature with one of the trusted public keys (base64url). Checks no time and no audience. */
export function verifySignature(jws: string, trusted: readonly string[]): Verified {
  const no = (error: string) => ({ ok: false, error }) as const;
  if (jws.length > MAX_CHARACTERS) return no(`it has more than ${MAX_CHARACTERS} characters`);
  const match = /^([\w-]+)\.([\w-]+)\.([\w-]+)$/.exec(jws);
  if (match === null) return no("it is not three parts of base64url, joined by points");
  const [, head = "", payload = "", signature = ""] = match;
  const header = decode(head);
  const claims = decode(payload);
  if (header === undefined || claims === undefined) return no("a part of it is not a JSON object");
  if (header.alg !== "EdDSA" || header.typ !== TYPE)
    return no(`its header is not that of a license (EdDSA, ${TYPE})`);
  const publicKey = trusted.find((key) => thumbprintOf(key) === header.kid);
  if (publicKey === undefined)
    return no(
      "none of the trusted keys has signed it; the list of keys may be too old, or the key was retired",
    );
  const bytes = Buffer.from(signature, "base64url");
  const isRight =
    bytes.toString("base64url") === signature &&
    verify(null, Buffer.from(`${head}.${payload}`), publicKeyOf(publicKey), bytes);
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

function decode(text: string): Readonly<Record<string, unknown>> | undefined {
  const bytes = Buffer.from(text, "base64url");
  // Other texts decode to the same bytes, so only the canonical base64url text is accepted.
  if (bytes.toString("base64url") !== text) return undefined;
  try {
    const value: unknown = JSON.parse(bytes.toString("utf8"));
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
