/** Makes the image of a release: what the executable needs of Debian in one layer, the executable in another. */
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { type Architecture, fetchDebianPackages, listDebianPackages } from "./debian_packages.ts";
import { USER_ID, writeImage } from "./image.ts";
import { CHECKOUT } from "./parts.ts";
import { run } from "./run.ts";

export interface ReleaseImage {
  readonly executable: string;
  readonly architecture: Architecture;
  readonly version: string;
  readonly commit: string;
  readonly createdAtSeconds: number;
}

/** The tools that an image is built with. */
export const IMAGE_TOOLS = ["umoci", "apt-get", "dpkg-deb", "tar"];

/** Builds the image and returns its path in `outdir`. */
export function buildReleaseImage(image: ReleaseImage, outdir: string): string {
  const { architecture, version, createdAtSeconds } = image;
  const packages = fetchDebianPackages(architecture, join(CHECKOUT, ".cache/debian"));
  const names = listDebianPackages(architecture).map((one) => `${one.name} ${one.version}`);
  const outfile = join(outdir, `claviger-${version}-oci-${architecture}.tar`);
  const work = mkdtempSync(join(resolve(outdir), "image-"));
  try {
    const [base, program] = [join(work, "base"), join(work, "program")];
    makeBaseRoot(base, packages);
    makeProgramRoot(program, image.executable);
    const labels = {
      "org.opencontainers.image.title": "claviger",
      "org.opencontainers.image.description": "Licensing and model-registry service",
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.revision": image.commit,
      "org.opencontainers.image.created": new Date(createdAtSeconds * 1000).toISOString(),
    };
    const layers = [
      { folder: base, comment: `Debian 12: ${names.join(", ")}` },
      { folder: program, comment: `claviger ${version}` },
    ];
    writeImage({ name: `claviger:${version}`, architecture, createdAtSeconds, layers, labels }, outfile);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  console.log(`${outfile}: with ${names.join(", ")} of Debian 12`);
  return outfile;
}

/** Makes a root folder of what the executable needs, from the unpacked files of Debian's packages. */
export function makeBaseRoot(root: string, packages: readonly string[]): void {
  const unpacked = `${root}-unpacked`;
  mkdirSync(join(unpacked, "lib64"), { recursive: true }); // The package of arm64 has none.
  for (const path of packages) run(["dpkg-deb", "--extract", path, unpacked], dirname(root));
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
  write(root, "etc/ssl/certs/ca-certificates.crt", texts.map((text) => `${text.trimEnd()}\n`).join(""));
  const owner = `${USER_ID}:${USER_ID}`;
  write(root, "etc/passwd", `root:x:0:0::/:/bin/sh\nclaviger:x:${owner}::/data:/bin/sh\n`);
  write(root, "etc/group", `root:x:0:\nclaviger:x:${USER_ID}:\n`);
  write(root, "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
  // A container engine mounts something on each of the last three.
  for (const folder of ["data", "tmp", "dev", "proc", "sys"]) mkdirSync(join(root, folder));
}

/** Makes a root folder of the executable and the file that says how it came to its machine. */
export function makeProgramRoot(root: string, executable: string): void {
  write(root, "usr/lib/claviger/origin", "image\n");
  mkdirSync(join(root, "usr/bin"));
  copyFileSync(executable, join(root, "usr/bin/claviger"));
  chmodSync(join(root, "usr/bin/claviger"), 0o755);
}

function write(root: string, path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}
