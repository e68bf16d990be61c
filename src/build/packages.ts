/**
 * Packages for machines other than this one, which `bun install` leaves out: fetched from the package
 * registry into `.cache/packages`, by the versions that package.json pins and the digests that are written down.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export interface PackageToFetch {
  readonly name: string;
  readonly version: string;
}

export interface FetchOptions {
  /** The folder that keeps packages; in `.cache` by default. */
  readonly cache?: string;
  /** The digest to compare with; by default the one in `integrity.txt` or `bun.lock`. */
  readonly integrity?: string;
}

const checkout = join(import.meta.dir, "../..");

/**
 * Gives the package's folder, which is kept after the first time. Throws when the package cannot be fetched, and
 * when the registry sends bytes that do not have the digest.
 */
export async function fetchPackage(
  { name, version }: PackageToFetch,
  options: FetchOptions = {},
): Promise<string> {
  const { cache = join(checkout, ".cache/packages") } = options;
  const integrity = options.integrity ?? integrityOf({ name, version });
  // The path holds the digest: a package that an earlier version fetched without comparing it is not used.
  const folder = join(cache, integrity.replaceAll(/\W/g, "").slice(0, 32), name);
  if (existsSync(folder)) return folder;
  mkdirSync(cache, { recursive: true });
  const place = mkdtempSync(join(cache, "fetch-"));
  try {
    const dependencies = { [name]: version };
    const lock = {
      lockfileVersion: 1,
      workspaces: { "": { dependencies } },
      packages: { [name]: [`${name}@${version}`, "", {}, integrity] },
    };
    writeFileSync(join(place, "package.json"), JSON.stringify({ private: true, dependencies }));
    writeFileSync(join(place, "bun.lock"), JSON.stringify(lock));
    const install = Bun.spawn(
      [process.execPath, "install", "--frozen-lockfile", "--ignore-scripts"],
      // Bun compares what it downloads, and not what is in its cache already.
      {
        cwd: place,
        env: { ...process.env, BUN_INSTALL_CACHE_DIR: join(place, "cache") },
        stdout: "ignore",
        stderr: "pipe",
      },
    );
    const said = await new Response(install.stderr).text();
    const fetched = join(place, "node_modules", name);
    if ((await install.exited) !== 0 || !existsSync(fetched)) {
      const why = said.trim();
      const other = /integrity/i.test(why) ? "the registry sent other bytes than those of its digest: " : "";
      throw new Error(`Cannot fetch ${name}@${version}: ${other}${why}`);
    }
    mkdirSync(dirname(folder), { recursive: true });
    renameSync(fetched, folder);
    return folder;
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

/** The digest of a package, from `integrity.txt` or, for a package of package.json, from `bun.lock`. */
export function integrityOf({ name, version }: PackageToFetch): string {
  const lines = readFileSync(join(import.meta.dir, "integrity.txt"), "utf8").split("\n");
  const [, listed] = lines.map((line) => line.split(" ")).find(([one]) => one === `${name}@${version}`) ?? [];
  const locked = readFileSync(join(checkout, "bun.lock"), "utf8")
    .split("\n")
    .find((line) => line.includes(`": ["${name}@${version}", `));
  const integrity = listed ?? /"(sha512-[^"]+)"\],?$/.exec(locked ?? "")?.[1];
  if (integrity !== undefined) return integrity;
  throw new Error(`Cannot fetch ${name}@${version}: neither integrity.txt nor bun.lock has its digest`);
}
