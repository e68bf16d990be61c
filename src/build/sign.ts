/** Writes the sums of a release and signs them with OpenSSH, so that one signature covers every file. */
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { sha256Of } from "./digest.ts";
import { runTool } from "./run_tool.ts";

/** The purpose of the signature: OpenSSH refuses one for another purpose. `claviger guide verify` names it, too. */
const NAMESPACE = "claviger-release";

interface SignOptions {
  /** The names of the files in the folder. */
  readonly files: readonly string[];
  /**
   * The file of the private key in OpenSSH's format, or of a public key (`.pub`) whose private key is in the agent;
   * undefined to sign nothing.
   */
  readonly key: string | undefined;
}

/**
 * Writes `SHA256SUMS` into the folder of a release, and `SHA256SUMS.sig` or, without a key, `NOT-SIGNED.txt`. Returns
 * the line by which customers know the key (`allowed_signers` of ssh-keygen(1)); undefined without a key.
 */
export function writeSums(folder: string, { files, key }: SignOptions): string | undefined {
  writeFileSync(
    join(folder, "SHA256SUMS"),
    files.map((name) => `${sha256Of(join(folder, name))}  ${name}\n`).join(""),
  );
  if (key === undefined) {
    writeFileSync(
      join(folder, "NOT-SIGNED.txt"),
      "This release is not signed: nothing proves who made it.\n",
    );
    return undefined;
  }
  const path = resolve(key);
  runTool(["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", path, "SHA256SUMS"], folder);
  const text = path.endsWith(".pub")
    ? readFileSync(path, "utf8")
    : runTool(["ssh-keygen", "-y", "-f", path], folder);
  const [type, publicKey] = text.split(" ");
  return `claviger namespaces="${NAMESPACE}" ${type} ${publicKey?.trim()}`;
}
