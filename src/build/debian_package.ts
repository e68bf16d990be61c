/**
 * Makes the Debian package of a release with dpkg-deb, without root. `debian/` has its texts; units, completions, man
 * page and changelog are what the commands of the program print. The same source gives the same bytes: owner, mode and
 * time of each file come from here.
 */
import { chmodSync, mkdtempDisposableSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import type { Architecture } from "./debian_packages.ts";
import { CHECKOUT } from "./parts.ts";
import { runTool } from "./run_tool.ts";

/** The program as a package and an image contain it. */
export interface ReleaseProgram {
  readonly executable: string;
  readonly architecture: Architecture;
  readonly version: string;
  readonly commit: string;
  readonly createdAtSeconds: number;
  /** The licences of everything inside. */
  readonly notices: string;
}

const BINARY = "usr/bin/claviger";
const SCRIPTS = ["postinst", "prerm", "postrm"];
const BACKUP_UNITS = ["claviger-backup.service", "claviger-backup.timer", "claviger-failed@.service"];

/** Builds the package and returns its path in `outdir`. */
export async function buildDebianPackage(program: ReleaseProgram, outdir: string): Promise<string> {
  const { executable, architecture, version, createdAtSeconds } = program;
  const outfile = join(resolve(outdir), `claviger_${version}_${architecture}.deb`);
  using work = mkdtempDisposableSync(join(resolve(outdir), "package-"));
  const root = work.path;
  const content = { ...listFiles(program), [BINARY]: readFileSync(executable) };
  const kilobytes = Object.values(content).reduce((sum, { length }) => sum + Math.ceil(length / 1024), 0);
  const files = {
    ...content,
    "DEBIAN/control": textOf("control")
      .replace("@SIZE@", String(kilobytes))
      .replace("@VERSION@", version)
      .replace("@ARCHITECTURE@", architecture),
    "DEBIAN/conffiles": "/etc/claviger/claviger.env\n",
    ...Object.fromEntries(SCRIPTS.map((name) => [`DEBIAN/${name}`, textOf(name)])),
  };
  for (const [path, text] of Object.entries(files)) await Bun.write(join(root, path), text);
  runTool(["sh", "-ec", "find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums"], root);
  for (const path of [BINARY, ...SCRIPTS.map((name) => `DEBIAN/${name}`)]) chmodSync(join(root, path), 0o755);
  runTool(["chmod", "-R", "ug-s,u=rwX,go=rX", "."], root);
  chmodSync(join(root, "etc/claviger"), 0o750);
  chmodSync(join(root, "etc/claviger/claviger.env"), 0o640);
  runTool(["find", ".", "-exec", "touch", `--date=@${createdAtSeconds}`, "{}", "+"], root);
  const time = `SOURCE_DATE_EPOCH=${createdAtSeconds}`;
  runTool(["env", time, "dpkg-deb", "--root-owner-group", "-Zxz", "--build", ".", outfile], root);
  console.log(`${outfile}: ${(statSync(outfile).size / 1e6).toFixed(1)} MB`);
  return outfile;
}

/** Returns the content of each file but the executable, by its path. */
function listFiles({ version, createdAtSeconds, notices }: ReleaseProgram): Record<string, string | Buffer> {
  const print = (...args: string[]) =>
    runTool([process.execPath, join(CHECKOUT, "src/main.ts"), ...args], CHECKOUT);
  const unit = (...args: string[]) => print("systemd", "--binary", `/${BINARY}`, ...args);
  return {
    "etc/claviger/claviger.env": textOf("claviger.env"),
    "usr/lib/claviger/origin": "package\n",
    "usr/lib/systemd/system/claviger.service": unit(),
    "usr/lib/systemd/system/claviger@.service": unit("--template"),
    ...Object.fromEntries(
      BACKUP_UNITS.map((name) => [`usr/lib/systemd/system/${name}`, unit("--unit", name)]),
    ),
    "usr/lib/sysusers.d/claviger.conf": print("systemd", "--sysusers"),
    "usr/share/bash-completion/completions/claviger": print("completion", "bash"),
    "usr/share/fish/vendor_completions.d/claviger.fish": print("completion", "fish"),
    "usr/share/zsh/vendor-completions/_claviger": print("completion", "zsh"),
    "usr/share/doc/claviger/changelog.gz": gzip(
      toChangelog(print("guide", "changes"), { version, createdAtSeconds }),
    ),
    "usr/share/doc/claviger/copyright": notices,
    "usr/share/lintian/overrides/claviger": textOf("lintian-overrides"),
    "usr/share/man/man1/claviger.1.gz": gzip(print("guide", "--man")),
  };
}

/** Returns the changes of a version as an entry of a changelog of Debian, which needs an author and a time. */
function toChangelog(
  page: string,
  { version, createdAtSeconds }: Pick<ReleaseProgram, "version" | "createdAtSeconds">,
) {
  const [, own] = page.split(`\n## ${version}\n`);
  const [changes] = own?.split(/^## /m) ?? [];
  if (changes === undefined)
    throw new Error(`Cannot write the changelog: the page changes has no ${version}`);
  const [, maintainer] = /^Maintainer: (.*)$/m.exec(textOf("control")) ?? [];
  const time = new Date(createdAtSeconds * 1000).toUTCString().replace("GMT", "+0000");
  const lines = changes
    .trim()
    .replaceAll(/^#+ /gm, "")
    .replaceAll(/^(?=.)/gm, "  ");
  return `claviger (${version}) stable; urgency=medium\n\n${lines}\n\n -- ${maintainer}  ${time}\n`;
}

function textOf(name: string): string {
  return readFileSync(join(import.meta.dir, "debian", name), "utf8");
}

function gzip(text: string): Buffer {
  return gzipSync(text, { level: 9 });
}
