/**
 * What an executable holds besides the source: npm packages, Bun, and the libraries of the PostgreSQL inside. The notices,
 * the SBOM and the statements about published faults (VEX) all use this list.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };

export const CHECKOUT = join(import.meta.dir, "../..");

/** A part that is not an npm package of its own. */
export interface Part {
  readonly name: string;
  readonly version: string;
  /** The title of its notice. */
  readonly title: string;
  /** The license as SPDX names it. */
  readonly license: string;
  /** The files in the package of PostgreSQL, without their versions. */
  readonly files: readonly string[];
  /** Vendor and product in the dictionary of the NVD, by which it names faults. */
  readonly cpe: string;
}

/** Built on Ubuntu 18.04. `parts_test.ts` compares the versions with what the files say. */
export const POSTGRES_PARTS: readonly Part[] = [
  {
    name: "postgresql",
    version: "18.4",
    title: "PostgreSQL",
    license: "PostgreSQL",
    files: ["bin/postgres", "bin/initdb", "lib/libpq.so.5"],
    cpe: "postgresql:postgresql",
  },
  {
    name: "openssl",
    version: "1.1.1",
    title: "OpenSSL 1.1.1 (libcrypto, libssl)",
    license: "OpenSSL",
    files: ["lib/libcrypto.so.1.1", "lib/libssl.so.1.1"],
    cpe: "openssl:openssl",
  },
  {
    name: "icu",
    version: "60.2",
    title: "ICU 60 (libicudata, libicui18n, libicuuc)",
    license: "ICU",
    files: ["lib/libicudata.so.60", "lib/libicui18n.so.60", "lib/libicuuc.so.60"],
    cpe: "unicode:international_components_for_unicode",
  },
  {
    name: "libxml2",
    version: "2.9.4",
    title: "libxml2",
    license: "MIT",
    files: ["lib/libxml2.so.2"],
    cpe: "xmlsoft:libxml2",
  },
  {
    name: "liblzma",
    version: "5.2.2",
    title: "liblzma (XZ Utils)",
    license: "LicenseRef-public-domain",
    files: ["lib/liblzma.so.5"],
    cpe: "tukaani:xz",
  },
  {
    name: "zlib",
    version: "1.2.11",
    title: "zlib",
    license: "Zlib",
    files: ["lib/libz.so.1"],
    cpe: "zlib:zlib",
  },
];

/** The dependencies that only the bundle for Node holds. */
const ONLY_ON_NODE = ["@hono/node-server"];

interface Manifest {
  readonly version: string;
  readonly license?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

export interface NpmPackage extends Manifest {
  readonly name: string;
  readonly folder: string;
}

/** Returns the npm packages of the bundle for Bun or for Node, with all their dependencies, in order of their names. */
export function listPackages(bundle: "bun" | "node"): NpmPackage[] {
  const found = new Map<string, NpmPackage>();
  const left = Object.keys(packageJson.dependencies);
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    if (found.has(name) || (bundle === "bun" && ONLY_ON_NODE.includes(name))) continue;
    const folder = join(CHECKOUT, "node_modules", name);
    const manifest: Manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    found.set(name, { ...manifest, name, folder });
    left.push(...Object.keys(manifest.dependencies ?? {}));
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}
