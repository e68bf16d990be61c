/**
 * The Debian packages whose files the image holds, and their download with apt-get: without root, and for each
 * architecture, in folders of its own.
 *
 * `debian_packages.txt` pins their versions and digests (package, source package, by which Debian names vulnerabilities,
 * version, architecture or `all`, SHA-256), so that the same source always gives the same image. They come from the package sources of the host that builds, which
 * must be those of Debian 12.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sha256Of } from "./digest.ts";
import { runTool } from "./run_tool.ts";

/** A machine by its name in Debian and in images. */
export type Architecture = "amd64" | "arm64";

export type DebianPackage = ReturnType<typeof listDebianPackages>[number];

/** Returns the packages in the image for a machine. */
export function listDebianPackages(machine: Architecture) {
  const lines = readFileSync(join(import.meta.dir, "debian_packages.txt"), "utf8")
    .trim()
    .split("\n");
  const packages = lines.map((line) => {
    const [name = "", source = "", version = "", architecture = "", sha256 = ""] = line.split(" ");
    return { name, source, version, architecture, sha256 };
  });
  return packages.filter(({ architecture }) => [machine, "all"].includes(architecture));
}

/**
 * Returns the files of the packages for a machine, in the order of `listDebianPackages()`. Fetches into `cache` what it
 * does not hold yet. Throws if a package cannot be fetched or does not have its digest.
 */
export function fetchDebianPackages(machine: Architecture, cache: string): string[] {
  const folder = join(cache, machine);
  const wanted = listDebianPackages(machine);
  const pathOf = (one: DebianPackage) => join(folder, `${one.name}_${one.version}_${one.architecture}.deb`);
  const missing = wanted.filter((one) => !existsSync(pathOf(one)));
  if (missing.length > 0) download(missing, { machine, folder });
  for (const one of wanted) {
    const found = sha256Of(pathOf(one));
    if (found !== one.sha256) throw new Error(`Cannot use ${pathOf(one)}: its SHA-256 is ${found}`);
  }
  return wanted.map(pathOf);
}

function download(
  packages: readonly DebianPackage[],
  { machine, folder }: { machine: Architecture; folder: string },
): void {
  const apt = join(folder, "apt");
  for (const path of ["state/lists/partial", "cache/archives/partial"]) {
    mkdirSync(join(apt, path), { recursive: true });
  }
  writeFileSync(join(apt, "status"), "");
  const options = [
    `APT::Architecture=${machine}`,
    `APT::Architectures=${machine}`,
    "APT::Sandbox::User=",
    "Acquire::Languages=none",
    `Dir::Cache=${apt}/cache`,
    "Dir::Etc::Preferences=/dev/null",
    "Dir::Etc::PreferencesParts=/dev/null",
    `Dir::State=${apt}/state`,
    `Dir::State::status=${apt}/status`,
  ].flatMap((option) => ["-o", option]);
  try {
    runTool(["apt-get", ...options, "-qq", "update"], folder);
    const names = packages.map(({ name, version }) => `${name}=${version}`);
    runTool(["apt-get", ...options, "-qq", "download", ...names], folder);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(
      `${why}
The package sources of this host must be those of Debian 12. If Debian replaced a package, write its new ` +
        `version into src/build/debian_packages.txt, or put the old file into ${folder}`,
    );
  }
}
