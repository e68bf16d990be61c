/**
 * The Debian packages whose files the image holds, and their download with apt-get: without root, and for each
 * architecture, in folders of its own.
 *
 * Their versions and digests are pinned here, so that the same source always gives the same image. They come from the
 * package sources of the host that builds, which must be those of Debian 12.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sha256Of } from "./digest.ts";
import { run } from "./run.ts";

/** A machine by its name in Debian and in images. */
export type Architecture = "amd64" | "arm64";

export interface DebianPackage {
  readonly name: string;
  /** The name of the source package, by which Debian names vulnerabilities. */
  readonly source: string;
  readonly version: string;
  /** `amd64`, `arm64`, or `all` for both. */
  readonly architecture: string;
  readonly sha256: string;
}

/** Package, source package, version, architecture, SHA-256. */
const PINS = `
libc6 glibc 2.36-9+deb12u14 amd64 ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf
libc6 glibc 2.36-9+deb12u14 arm64 01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4
libstdc++6 gcc-12 12.2.0-14+deb12u1 amd64 5cd3171216d4ab0fc911cfe9c35509bf2dd8f47761c43b7f6a4296701551a24d
libstdc++6 gcc-12 12.2.0-14+deb12u1 arm64 26e138c677a985775331373828a6c286c551ff397cb735d00e2383cb273d1cb2
libgcc-s1 gcc-12 12.2.0-14+deb12u1 amd64 3016e62cb4b7cd8038822870601f5ed131befe942774d0f745622cc77d8a88f7
libgcc-s1 gcc-12 12.2.0-14+deb12u1 arm64 576926b283613db80168ddf76380a3bd877602778cf0d226caa7bfbfa71eacf3
gcc-12-base gcc-12 12.2.0-14+deb12u1 amd64 1896a2aacf4ad681ff5eacc24a5b0ca4d5d9c9b9c9e4b6de5197bc1e116ea619
gcc-12-base gcc-12 12.2.0-14+deb12u1 arm64 674cf6cba6d432bd200c45fe866c1652c7a53523cc2e7a613e05bc4abf7b5440
dash dash 0.5.12-2 amd64 33ea40061da2f1a861ec46212b2b6a34f0776a049b1a3f0abce2fb8cb994258f
dash dash 0.5.12-2 arm64 c1358e2a8054eb93efd460adf480224a16ea9e0b4d7b4c6cbcf8c8c91902a1d7
ca-certificates ca-certificates 20250419~deb12u2 all b9f76b5271a7ac373fd5e7e1b5b826a71ddd702b42a0d104955ecb1acfffc94b
tzdata tzdata 2026f-0+deb12u1 all 3254eb870c8a949518214805aee5e4276af7699988ea8b9a3a583cd0f1eab31c
`;

/** Returns the packages in the image for a machine. */
export function listDebianPackages(machine: Architecture): DebianPackage[] {
  const lines = PINS.trim()
    .split("\n")
    .map((line) => line.split(" "));
  return lines
    .map(([name = "", source = "", version = "", architecture = "", sha256 = ""]) => {
      return { name, source, version, architecture, sha256 };
    })
    .filter(({ architecture }) => architecture === machine || architecture === "all");
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
  const settings = {
    "APT::Architecture": machine,
    "APT::Architectures": machine,
    "APT::Sandbox::User": "",
    "Acquire::Languages": "none",
    "Dir::Cache": join(apt, "cache"),
    "Dir::Etc::Preferences": "/dev/null",
    "Dir::Etc::PreferencesParts": "/dev/null",
    "Dir::State": join(apt, "state"),
    "Dir::State::status": join(apt, "status"),
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  try {
    run(["apt-get", ...options, "-qq", "update"], folder);
    const names = packages.map(({ name, version }) => `${name}=${version}`);
    run(["apt-get", ...options, "-qq", "download", ...names], folder);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(
      `${why}
The package sources of this host must be those of Debian 12. If Debian replaced a package, write its new ` +
        `version into src/build/debian_packages.ts, or put the old file into ${folder}`,
    );
  }
}
