/**
 * Fetches packages for other machines than this one, which `bun install` leaves out, from the package registry into
 * `.cache/packages`. Their versions are pinned in package.json, their digests in `integrity.txt` and `bun.lock`.
 */
import { existsSync, mkdirSync, mkdtempDisposableSync, readFileSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { CHECKOUT, type NpmPackage } from "./parts.ts";

interface FetchOptions {
  /** The folder that keeps packages; `.cache/packages` by default. */
  readonly cache?: string;
  /** The digest to compare with; by default the one in `integrity.txt` or `bun.lock`. */
  readonly integrity?: string;
}

/**
 * Returns the package's folder; fetches the package if it is not kept yet. Throws if the package cannot be fetched,
 * or if the registry sends bytes that do not have the digest.
 */
export async function fetchPackage(
  { name, version }: Pick<NpmPackage, "name" | "version">,
  options: FetchOptions = {},
): Promise<string> {
  const { cache = join(CHECKOUT, ".cache/packages") } = options;
  const integrity = options.integrity ?? integrityOf({ name, version });
  // The path contains the digest, so a package that an earlier version fetched without a check is not used.
  const folder = join(cache, integrity.replaceAll(/\W/g, "").slice(0, 32), name);
  if (existsSync(folder)) return folder;
  mkdirSync(cache, { recursive: true });
  using work = mkdtempDisposableSync(join(cache, "fetch-"));
  const dependencies = { [name]: version };
  const lock = {
    lockfileVersion: 1,
    workspaces: { "": { dependencies } },
    packages: { [name]: [`${name}@${version}`, "", {}, integrity] },
  };
  await Bun.write(join(work.path, "package.json"), JSON.stringify({ private: true, dependencies }));
  await Bun.write(join(work.path, "bun.lock"), JSON.stringify(lock));
  const install = Bun.spawn(
    [process.execPath, "install", "--frozen-lockfile", "--ignore-scripts"],
    // Bun checks the digest of a download, but not of a package in its cache. So the cache starts empty.
    {
      cwd: work.path,
      env: { ...process.env, BUN_INSTALL_CACHE_DIR: join(work.path, "cache") },
      stdout: "ignore",
      stderr: "pipe",
    },
  );
  const errorOutput = await new Response(install.stderr).text();
  const fetched = join(work.path, "node_modules", name);
  if ((await install.exited) !== 0 || !existsSync(fetched)) {
    const why = errorOutput.trim();
    const mismatch = /integrity/i.test(why) ? "the registry sent bytes that do not have the digest: " : "";
    throw new Error(`Cannot fetch ${name}@${version}: ${mismatch}${why}`);
  }
  mkdirSync(dirname(folder), { recursive: true });
  renameSync(fetched, folder);
  return folder;
}

/** Returns the digest of a package from `integrity.txt` or, for a package in package.json, from `bun.lock`. */
export function integrityOf({ name, version }: Pick<NpmPackage, "name" | "version">): string {
  const lines = readFileSync(join(import.meta.dir, "integrity.txt"), "utf8").split("\n");
  const [, listed] = lines.map((line) => line.split(" ")).find(([one]) => one === `${name}@${version}`) ?? [];
  const locked = readFileSync(join(CHECKOUT, "bun.lock"), "utf8")
    .split("\n")
    .find((line) => line.includes(`": ["${name}@${version}", `));
  const integrity = listed ?? /"(sha512-[^"]+)"\],?$/.exec(locked ?? "")?.[1];
  if (integrity !== undefined) return integrity;
  throw new Error(`Cannot fetch ${name}@${version}: neither integrity.txt nor bun.lock has its digest`);
}
