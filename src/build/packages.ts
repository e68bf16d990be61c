/**
 * Packages for machines other than this one, which `bun install` leaves out: fetched from the package
 * registry into `.cache/packages`, by the versions that package.json pins.
 */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export interface PackageToFetch {
  readonly name: string;
  readonly version: string;
  /** The processor that it is for, as npm names it. */
  readonly cpu: "x64" | "arm64";
}

const cache = join(import.meta.dir, "../../.cache/packages");

/** Gives the package's folder, in `.cache` after the first time; throws where it cannot be had. */
export function fetchPackage({ name, version, cpu }: PackageToFetch): string {
  const folder = join(cache, version, name);
  if (existsSync(folder)) return folder;
  mkdirSync(cache, { recursive: true });
  const place = mkdtempSync(join(cache, "fetch-"));
  try {
    writeFileSync(join(place, "package.json"), '{ "private": true }');
    const add = Bun.spawnSync(
      [process.execPath, "add", "--ignore-scripts", "--os=linux", `--cpu=${cpu}`, `${name}@${version}`],
      { cwd: place, stdout: "ignore", stderr: "pipe" },
    );
    const fetched = join(place, "node_modules", name);
    if (add.exitCode !== 0 || !existsSync(fetched)) {
      throw new Error(`Cannot fetch ${name}@${version}: ${add.stderr.toString().trim()}`);
    }
    mkdirSync(dirname(folder), { recursive: true });
    renameSync(fetched, folder);
    return folder;
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}
