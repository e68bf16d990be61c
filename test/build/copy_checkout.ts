/** Copies the checkout to another folder, as somebody else would have it. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { CHECKOUT } from "../../src/build/parts.ts";

/**
 * Returns a folder of this name with a copy: the files that git knows or does not ignore, the repository itself, and
 * the installed packages. Nothing that was built or packed before. With `isLinked` the packages and what was fetched are
 * links, and the repository is left out: a copy of 10 MB, in which tests run.
 */
export function copyCheckout(
  name: string,
  { isLinked = false }: { readonly isLinked?: boolean } = {},
): { readonly folder: string; remove(): void } {
  const parent = mkdtempSync("/var/tmp/claviger-copy-");
  const folder = join(parent, name);
  mkdirSync(folder, { recursive: true });
  const listed = Bun.spawnSync(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: CHECKOUT,
  });
  if (listed.exitCode !== 0) throw new Error(`Cannot list the files of ${CHECKOUT}: ${listed.stderr}`);
  const files = listed.stdout.toString().split("\0").filter(Boolean);
  for (const path of isLinked ? ["node_modules", ".cache"] : []) {
    if (existsSync(join(CHECKOUT, path))) symlinkSync(join(CHECKOUT, path), join(folder, path));
  }
  for (const path of isLinked ? files : [".git", "node_modules", ...files]) {
    if (existsSync(join(CHECKOUT, path))) {
      cpSync(join(CHECKOUT, path), join(folder, path), { recursive: true, verbatimSymlinks: true });
    }
  }
  return { folder, remove: () => rmSync(parent, { recursive: true, force: true }) };
}
