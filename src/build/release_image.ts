/** Makes the image of a release: what the executable needs of Debian in one layer, the executable in another. */
import { mkdirSync, mkdtempDisposableSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { ReleaseProgram } from "./debian_package.ts";
import { fetchDebianPackages, listDebianPackages } from "./debian_packages.ts";
import { USER_ID, writeImage } from "./image.ts";
import { CHECKOUT } from "./parts.ts";
import { runTool } from "./run_tool.ts";

/** The tools that an image is built with. */
export const IMAGE_TOOLS = ["umoci", "apt-get", "dpkg-deb", "tar"];

/** Builds the image and returns its path in `outdir`. */
export async function buildReleaseImage(program: ReleaseProgram, outdir: string): Promise<string> {
  const { architecture, version, createdAtSeconds } = program;
  const packages = fetchDebianPackages(architecture, join(CHECKOUT, ".cache/debian"));
  const names = listDebianPackages(architecture).map((one) => `${one.name} ${one.version}`);
  const outfile = join(outdir, `claviger-${version}-oci-${architecture}.tar`);
  using work = mkdtempDisposableSync(join(resolve(outdir), "image-"));
  const layers = [
    { folder: join(work.path, "base"), comment: `Debian 12: ${names.join(", ")}` },
    { folder: join(work.path, "program"), comment: `claviger ${version}` },
  ] as const;
  await makeBaseRoot(layers[0].folder, packages);
  await makeProgramRoot(layers[1].folder, program);
  const labels = toLabels(program);
  writeImage({ name: `claviger:${version}`, architecture, createdAtSeconds, layers, labels }, outfile);
  console.log(`${outfile}: with ${names.join(", ")} of Debian 12`);
  return outfile;
}

/** Returns the labels of the image, by the names of OCI (https://specs.opencontainers.org/image-spec/annotations/). */
export function toLabels({
  version,
  commit,
  createdAtSeconds,
}: Pick<ReleaseProgram, "version" | "commit" | "createdAtSeconds">) {
  return {
    "org.opencontainers.image.title": "claviger",
    "org.opencontainers.image.description": "Licensing and model-registry service",
    "org.opencontainers.image.version": version,
    "org.opencontainers.image.revision": commit,
    "org.opencontainers.image.created": new Date(createdAtSeconds * 1000).toISOString(),
  };
}

/** Makes a root folder of what the executable needs, from the unpacked files of Debian's packages. */
export async function makeBaseRoot(root: string, packages: readonly string[]): Promise<void> {
  const unpacked = `${root}-unpacked`;
  mkdirSync(join(unpacked, "lib64"), { recursive: true }); // The package of arm64 has none.
  for (const path of packages) runTool(["dpkg-deb", "--extract", path, unpacked], dirname(root));
  // The folders of libgcc-s1 and libstdc++6 are links to that of gcc-12-base.
  const notices = readdirSync(join(unpacked, "usr/share/doc"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => `usr/share/doc/${name}/copyright`);
  const stdLibraries = readdirSync(join(unpacked, "usr/lib"), { recursive: true, encoding: "utf8" })
    .filter((path) => basename(path).startsWith("libstdc++.so."))
    .map((path) => `usr/lib/${path}`);
  for (const path of ["bin", "lib", "lib64", "usr/share/zoneinfo", ...stdLibraries, ...notices]) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    renameSync(join(unpacked, path), join(root, path));
  }
  // On a Debian host a script of the package writes this file.
  const authorities = join(unpacked, "usr/share/ca-certificates/mozilla");
  const texts = readdirSync(authorities)
    .sort()
    .map((name) => readFileSync(join(authorities, name), "utf8"));
  const files = {
    "ssl/certs/ca-certificates.crt": texts.map((text) => `${text.trimEnd()}\n`).join(""),
    passwd: `root:x:0:0::/:/bin/sh\nclaviger:x:${USER_ID}:${USER_ID}::/data:/bin/sh\n`,
    group: `root:x:0:\nclaviger:x:${USER_ID}:\n`,
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
  };
  for (const [name, text] of Object.entries(files)) await Bun.write(join(root, "etc", name), text);
  // A container engine mounts something on each of the last three.
  for (const folder of ["data", "tmp", "dev", "proc", "sys"]) mkdirSync(join(root, folder));
}

/** Makes a root folder of the executable, its notices, and the file that says how it came to its machine. */
export async function makeProgramRoot(
  root: string,
  { executable, notices }: Pick<ReleaseProgram, "executable" | "notices">,
): Promise<void> {
  await Bun.write(join(root, "usr/lib/claviger/origin"), "image\n");
  await Bun.write(join(root, "usr/share/doc/claviger/copyright"), notices);
  runTool(["install", "-D", "--mode=755", resolve(executable), "usr/bin/claviger"], root);
}
