import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/** Returns the SHA-256 of a file, in hexadecimal digits. */
export function sha256Of(path: string): string {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}
