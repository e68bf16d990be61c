/** Copies the checkout to another folder, as somebody else would have it. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { CHECKOUT } from "../../src/build/parts.ts";

/**
 * Returns a folder of this name with a copy: the files that git knows or does not ignore, the repository itself, and
 * the installed packages. Nothing that was built or packed before.
 */
export function copyCheckout(name: string): { readonly folder: string; remove(): void } {
  const parent = mkdtempSync("/var/tmp/claviger-copy-");
  const folder = join(parent, name);
  mkdirSync(folder, { recursive: true });
  const listed = Bun.spawnSync(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: CHECKOUT,
  });
  if (listed.exitCode !== 0) throw new Error(`Cannot list the files of ${CHECKOUT}: ${listed.stderr}`);
  const files = listed.stdout.toString().split("\0").filter(Boolean);
  for (const path of [".git", "node_modules", ...files]) {
    if (existsSync(join(CHECKOUT, path))) {
      cpSync(join(CHECKOUT, path), join(folder, path), { recursive: true, verbatimSymlinks: true });
    }
  }
  return { folder, remove: () => rmSync(parent, { recursive: true, force: true }) };
}
