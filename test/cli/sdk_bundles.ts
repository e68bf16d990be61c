/** Bundles as `claviger bundle make` writes them, signed by the key that the clients of the tests pin. */
import { createHash } from "node:crypto";
import { renderTarHeader, TAR_END, tarPadding } from "../../src/base/tar_header.ts";
import { signAs, signLicense } from "./sdk_fake_service.ts";

interface Contents {
  /** Claims of the license, beside those of every license of the tests. */
  readonly license?: object;
  /** The bytes of the models of version 1.0.0 by their names. */
  readonly models?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
}

/** Makes a bundle with a license of seven days for the machine `workstation-7`. */
export function makeBundle({ license: more = {}, models = {}, files = {} }: Contents = {}): Buffer {
  const names = { iss: "https://svc.example", sub: "lic_01a2038780767b698ef799a812850001", jti: newJti() };
  const license = signLicense({ ...names, ...more });
  const { iss, aud, iat, jti, sub, key_id, fingerprint } = claimsOf(license);
  const entries = [
    { path: "license.jws", kind: "license", bytes: Buffer.from(`${license}\n`) },
    ...Object.entries(models).map(([name, text]) => ({
      ...{ path: `models/${name}-1.0.0.onnx`, kind: "model", bytes: Buffer.from(text) },
      more: { name, version: "1.0.0" },
    })),
    ...Object.entries(files).map(([name, text]) => ({
      ...{ path: `files/${name}`, kind: "file", bytes: Buffer.from(text) },
    })),
  ].toSorted((one, other) => (one.path < other.path ? -1 : 1));
  const manifest = signAs("bundle", {
    ...{ iss, aud, iat, jti, license_id: sub, key_id, fingerprint },
    files: entries.map(({ path, kind, bytes, ...model }) => {
      const sha256 = createHash("sha256").update(bytes).digest("hex");
      return { path, size: bytes.length, sha256, kind, ...("more" in model ? model.more : {}) };
    }),
  });
  const first = { path: "manifest.jws", bytes: Buffer.from(`${manifest}\n`) };
  const blocks = [first, ...entries].flatMap(({ path, bytes }) => [
    renderTarHeader({ path, sizeBytes: bytes.length, modifiedAt: new Date(iat * 1_000) }, 0o644),
    bytes,
    tarPadding(bytes.length),
  ]);
  return Buffer.concat([...blocks, TAR_END]);
}

let made = 0;
function newJti(): string {
  return `01a20387-8076-7b69-8ef7-${String(++made).padStart(12, "0")}`;
}

/** Returns the claims of a license of the tests. */
function claimsOf(license: string) {
  return JSON.parse(Buffer.from(license.split(".")[1] ?? "", "base64url").toString());
}
