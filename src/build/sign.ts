/** Writes the sums of a release and signs them with OpenSSH, so that one signature covers every file. */
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "./run.ts";

/** What a signature is for, so that one for another purpose does not count. `claviger guide verify` names it, too. */
export const NAMESPACE = "claviger-release";

export interface SignOptions {
  /** The names of the files in the folder. */
  readonly files: readonly string[];
  /** The private key in OpenSSH's format, or a public key whose private key is in the agent; undefined to sign nothing. */
  readonly key: string | undefined;
}

/**
 * Writes `SHA256SUMS` into the folder of a release, and `SHA256SUMS.sig` or, without a key, `NOT-SIGNED.txt`. Returns
 * the line by which customers know the key (`allowed_signers` of ssh-keygen(1)); undefined without a key.
 */
export function writeSums(folder: string, { files, key }: SignOptions): string | undefined {
  const sumOf = (name: string) =>
    createHash("sha256")
      .update(readFileSync(join(folder, name)))
      .digest("hex");
  writeFileSync(join(folder, "SHA256SUMS"), files.map((name) => `${sumOf(name)}  ${name}\n`).join(""));
  if (key === undefined) {
    writeFileSync(
      join(folder, "NOT-SIGNED.txt"),
      "This release is not signed: nothing proves who made it.\n",
    );
    return undefined;
  }
  run(["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", key, "SHA256SUMS"], folder);
  const [type, publicKey] = run(["ssh-keygen", "-y", "-f", key], folder).split(" ");
  return `claviger namespaces="${NAMESPACE}" ${type} ${publicKey?.trim()}`;
}
