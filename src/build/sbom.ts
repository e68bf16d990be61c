/**
 * Renders the SBOM of a release: its files and what each of them holds, in the format CycloneDX 1.6
 * (https://cyclonedx.org/docs/1.6/json/). The same release gives the same bytes.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import type { ClientPackage } from "./client_packages.ts";
import type { DebianPackage } from "./debian_packages.ts";
import { sha256Of } from "./digest.ts";
import type { Machine } from "./elf.ts";
import { integrityOf } from "./packages.ts";
import {
  BUN_CRATES,
  BUN_PARTS,
  CHECKOUT,
  listPackages,
  type NpmPackage,
  POSTGRES,
  ZIG_RUNTIME,
} from "./parts.ts";
import { CLANG_VERSION, POSTGRES_COMPILER } from "./postgres_compiler.ts";
import { POSTGRES_SOURCE } from "./postgres_source.ts";

/** A file of the release. An image and a package hold an executable. */
export interface ReleaseFile {
  readonly path: string;
  /** The npm package of the Bun inside, such as `@oven/bun-linux-x64`. */
  readonly runtime: string;
  /** The machine of the PostgreSQL inside, and the folder in which `postgres.ts` built it. */
  readonly postgres: { readonly machine: Machine; readonly folder: string };
  /** The packages of Debian in an image. */
  readonly debian?: readonly DebianPackage[];
}

interface SbomOptions {
  readonly commit: string;
  readonly createdAtSeconds: number;
  readonly files: readonly ReleaseFile[];
  readonly clients: readonly ClientPackage[];
}

interface Component {
  readonly "bom-ref": string;
  readonly [field: string]: unknown;
}

/** Says of each crate where its name and version come from, because the executable of Bun names no crates. */
const ORIGIN_OF_CRATES = "a lock file of Bun from before this version; the executable does not confirm it";

/** Returns the document as JSON, with the license, digest and package URL of each part. */
export function renderSbom({ commit, createdAtSeconds, files, clients }: SbomOptions): string {
  const { version, description } = packageJson;
  const name = `pkg:generic/claviger@${version}`;
  const program = listPackages("bun").map(toNpmComponent);
  const parts = new Map<string, Component>();
  const dependencies = files.map((file) => {
    const inside = [toRuntime(file), toPostgres(file), ...program, ...(file.debian ?? []).map(toDebian)];
    for (const part of inside) parts.set(part["bom-ref"], part);
    return { ref: refOf(file), dependsOn: inside.map((part) => part["bom-ref"]) };
  });
  const ofClients = clients.map((client) => {
    const needed = client.needs.map(toNeeded);
    for (const part of needed) parts.set(part["bom-ref"], part);
    return { ref: refOf(client), dependsOn: needed.map((part) => part["bom-ref"]) };
  });
  const all = [...files, ...clients];
  return `${JSON.stringify(
    {
      bomFormat: "CycloneDX",
      specVersion: "1.6",
      version: 1,
      metadata: {
        timestamp: new Date(createdAtSeconds * 1000).toISOString(),
        component: {
          type: "application",
          "bom-ref": name,
          name: packageJson.name,
          version,
          description,
          purl: name,
          properties: [{ name: "claviger:commit", value: commit }],
        },
      },
      components: [...all.map(toFile), ...parts.values()],
      dependencies: [{ ref: name, dependsOn: all.map(refOf) }, ...dependencies, ...ofClients],
    },
    null,
    2,
  )}\n`;
}

function refOf({ path }: Pick<ReleaseFile, "path">): string {
  return `file:${path.slice(path.lastIndexOf("/") + 1)}`;
}

function toFile(file: Pick<ReleaseFile, "path">): Component {
  const ref = refOf(file);
  return { type: "file", "bom-ref": ref, name: ref.slice("file:".length), hashes: [toHash(file.path)] };
}

function toNpmComponent({ name, version, license = "" }: NpmPackage): Component {
  const patch = (packageJson.patchedDependencies as Record<string, string>)[`${name}@${version}`];
  if (patch === undefined) return npmComponent(name, { version, license });
  const content = readFileSync(join(CHECKOUT, patch), "utf8");
  const pedigree = { patches: [{ type: "unofficial", diff: { text: { content } } }] };
  return npmComponent(name, { version, license, pedigree });
}

/** Bun, with the libraries that it links. They are no files of their own, so they have no digests. */
function toRuntime({ runtime }: ReleaseFile): Component {
  const libraries = BUN_PARTS.map(({ name, license, version: linked }) => ({
    type: "library",
    "bom-ref": `${runtime}#${name}`,
    name,
    version: linked,
    licenses: licensed(license),
    purl: linked === undefined ? undefined : `pkg:generic/${name}@${linked}`,
  }));
  const crates = BUN_CRATES.map(({ name, version, license }) => ({
    type: "library",
    "bom-ref": `${runtime}#${name}@${version}`,
    name,
    version,
    licenses: licensed(license),
    purl: `pkg:cargo/${name}@${version}`,
    properties: [{ name: "claviger:origin", value: ORIGIN_OF_CRATES }],
  }));
  const version = packageJson.engines.bun;
  const components = [...libraries, ...crates];
  return npmComponent(runtime, { type: "platform", name: "bun", version, license: "MIT", components });
}

/** Names the source archive and the compiler, from which anyone can build the same files. */
function toPostgres({ postgres: { machine, folder } }: ReleaseFile): Component {
  const { name, version, license, cpe, files } = POSTGRES;
  const { url, sha256 } = POSTGRES_SOURCE;
  const purl = `pkg:generic/${name}@${version}`;
  return {
    type: "application",
    "bom-ref": `${purl}#linux-${machine}`,
    name,
    version,
    licenses: licensed(license),
    cpe: `cpe:2.3:a:${cpe}:${version}:*:*:*:*:*:*:*`,
    purl,
    externalReferences: [{ type: "source-distribution", url, hashes: [{ alg: "SHA-256", content: sha256 }] }],
    properties: [
      {
        name: "claviger:compiler",
        value: `zig cc ${POSTGRES_COMPILER.version} (clang ${CLANG_VERSION})`,
      },
    ],
    components: [
      ...files.map((file) => ({
        type: "file",
        name: file,
        hashes: [toHash(join(folder, "packed", file))],
      })),
      {
        type: "library",
        name: ZIG_RUNTIME.name,
        version: ZIG_RUNTIME.version,
        licenses: licensed(ZIG_RUNTIME.license),
        purl: `pkg:generic/${ZIG_RUNTIME.name}@${ZIG_RUNTIME.version}`,
      },
    ],
  };
}

/** A component that comes as an npm package, with the package's digest, which the build has compared. */
function npmComponent(
  packageName: string,
  { version, license, ...rest }: { version: string; license: string; [field: string]: unknown },
): Component {
  const purl = `pkg:npm/${packageName.replace("@", "%40")}@${version}`;
  const digest = integrityOf({ name: packageName, version }).slice("sha512-".length);
  const hashes = [{ alg: "SHA-512", content: Buffer.from(digest, "base64").toString("hex") }];
  const common = { type: "library", "bom-ref": purl, name: packageName, version };
  return { ...common, hashes, licenses: licensed(license), purl, ...rest };
}

function toDebian({ name, source, version, architecture, sha256 }: DebianPackage): Component {
  const from = source === name ? "" : `&upstream=${source}`;
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}&distro=debian-12${from}`;
  const hashes = [{ alg: "SHA-256", content: sha256 }];
  const licenses = licensed(`LicenseRef-/usr/share/doc/${name}/copyright in the image`);
  return { type: "library", "bom-ref": purl, name, version, hashes, licenses, purl };
}

/** A package that pip adds to a client. It is in no file of the release, so it has no version and no digest here. */
function toNeeded(name: string): Component {
  const purl = `pkg:pypi/${name}`;
  const properties = [{ name: "claviger:origin", value: "not in the release: pip installs it" }];
  return { type: "library", "bom-ref": purl, name, scope: "optional", purl, properties };
}

/** A license has an id if SPDX lists it, otherwise a name. Several licenses are one expression, such as `MIT OR ISC`. */
function licensed(license: string) {
  if (/ (OR|AND|WITH) /.test(license)) return [{ expression: license }];
  const isOurs = license.startsWith("LicenseRef-");
  return [{ license: isOurs ? { name: license.slice("LicenseRef-".length) } : { id: license } }];
}

function toHash(path: string) {
  return { alg: "SHA-256", content: sha256Of(path) };
}
