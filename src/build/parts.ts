/**
 * What an executable holds besides the source: npm packages, Bun and PostgreSQL. The notices, the SBOM and the
 * statements about published faults (VEX) all use this list.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { BUILT_POSTGRES } from "../base/version.ts";
import { POSTGRES_COMPILER } from "./postgres_compiler.ts";

export const CHECKOUT = join(import.meta.dir, "../..");

/**
 * The PostgreSQL inside, which `postgres.ts` builds: its programs and modules, which need no library but those of glibc
 * and, for initdb, libpq beside it. `license` is a name in SPDX's list; `cpe` has vendor and product as in the dictionary
 * of the NVD, by which it names faults.
 */
export const POSTGRES = {
  name: "postgresql",
  version: BUILT_POSTGRES,
  license: "PostgreSQL",
  cpe: "postgresql:postgresql",
  files: [
    "bin/initdb",
    "bin/postgres",
    "lib/libpq.so.5",
    "lib/postgresql/dict_snowball.so",
    "lib/postgresql/plpgsql.so",
  ],
};

/** What its compiler links into it. */
export const ZIG_RUNTIME = {
  name: "zig-runtime",
  version: POSTGRES_COMPILER.version,
  license: "LicenseRef-see-NOTICES.txt",
};

/**
 * What Bun links: each line has the name as in `notices/bun.txt`, the license, and the name in `process.versions`,
 * where Bun tells the version. Further names in `process.versions` belong to Node and V8, whose interfaces Bun has, and to
 * the tools that built Bun.
 */
const LIBRARIES_OF_BUN = `
webkit LGPL-2.0-or-later webkit
sqlite blessing sqlite
boringssl LicenseRef-see-NOTICES.txt boringssl
brotli MIT
HdrHistogram_c BSD-2-Clause
libarchive LicenseRef-see-NOTICES.txt libarchive
llhttp MIT llhttp
lol-html BSD-3-Clause lolhtml
ls-hpack MIT lshpack
ls-qpack MIT
lsquic LicenseRef-see-NOTICES.txt
mimalloc MIT mimalloc
picohttp MIT picohttpparser
zstd BSD-3-Clause zstd
rust-std LicenseRef-see-NOTICES.txt
simdutf Apache-2.0
tinycc LGPL-2.1-or-later tinycc
uSockets Apache-2.0 usockets
uWebSockets Apache-2.0 uwebsockets
zlib-ng Zlib zlib
c-ares MIT ares
libicu Unicode-3.0 icu
libbase64 BSD-2-Clause
libdeflate MIT libdeflate
libjpeg-turbo LicenseRef-see-NOTICES.txt
libspng BSD-2-Clause
libwebp BSD-3-Clause
highway Apache-2.0
uucode MIT
`;

/** The libraries that the Bun of this build links; some without a version, which Bun does not tell. */
export const BUN_PARTS = LIBRARIES_OF_BUN.trim()
  .split("\n")
  .map((line) => {
    const [name = "", license = "", key = ""] = line.split(" ");
    return { name, license, version: process.versions[key] };
  });

/**
 * The crates of Rust in Bun. `notices/bun-crates.txt` lists them, and says where the list comes from: each entry begins
 * with a line of name, version and, after two spaces, license.
 */
export const BUN_CRATES = [
  ...readFileSync(join(import.meta.dir, "notices/bun-crates.txt"), "utf8").matchAll(
    /^(\S+) (\d\S*) {2}(\S.*)$/gm,
  ),
].map(([, name = "", version = "", license = ""]) => ({ name, version, license }));

/** The dependencies that only the bundle for Node holds. */
const ONLY_ON_NODE = ["@hono/node-server"];

export interface NpmPackage {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly folder: string;
}

/** Returns the npm packages of the bundle for Bun or for Node, with all their dependencies, in order of their names. */
export function listPackages(bundle: "bun" | "node"): NpmPackage[] {
  const found = new Map<string, NpmPackage>();
  const left = Object.keys(packageJson.dependencies);
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    if (found.has(name) || (bundle === "bun" && ONLY_ON_NODE.includes(name))) continue;
    const folder = join(CHECKOUT, "node_modules", name);
    const manifest: Omit<NpmPackage, "folder"> = JSON.parse(
      readFileSync(join(folder, "package.json"), "utf8"),
    );
    found.set(name, { ...manifest, name, folder });
    left.push(...Object.keys(manifest.dependencies ?? {}));
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}
