/**
 * The Debian package of a release, made around a small script in place of the executable. These tests need dpkg-deb;
 * where it is missing, CI fails and others leave the tests out. lintian and shellcheck judge the package where they
 * are, and in CI.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import packageJson from "../../package.json" with { type: "json" };
import { buildDebianPackage } from "../../src/build/debian_package.ts";
import { renderNotices } from "../../src/build/notices.ts";
import { CHECKOUT } from "../../src/build/parts.ts";
import { runTool } from "../../src/build/run_tool.ts";
import { findGuidePage } from "../../src/cli/guide/pages.ts";
import { useFolder } from "../support/use_folder.ts";

const TIME = "2023-11-14 22:13";
const UNITS = ["claviger-backup.service", "claviger-backup.timer", "claviger-failed@.service"];
const isInCi = process.env.CI !== undefined;
const makesPackages = isInCi || Bun.which("dpkg-deb") !== null;

/** The real ones, which lintian judges. */
const notices = renderNotices();

const folder = useFolder();
let path: string;
let content: string;

/** Builds the package in a folder of that name. */
function build(name: string): Promise<string> {
  const outdir = join(folder, name);
  mkdirSync(outdir);
  const executable = join(folder, "executable");
  writeFileSync(executable, "#!/bin/sh\n");
  return buildDebianPackage(
    {
      executable,
      architecture: "arm64",
      version: packageJson.version,
      commit: "unknown",
      createdAtSeconds: 1_700_000_000,
      notices,
    },
    outdir,
  );
}

const read = (name: string) => readFileSync(join(content, name), "utf8");
const print = (...args: string[]) =>
  runTool([process.execPath, join(CHECKOUT, "src/main.ts"), ...args], CHECKOUT);

beforeAll(async () => {
  if (!makesPackages) return;
  path = await build("one");
  content = join(folder, "content");
  runTool(["dpkg-deb", "--raw-extract", path, content], folder);
});

describe.skipIf(!makesPackages)("buildDebianPackage()", () => {
  test("gives every file its owner, mode and time, and packs no other file", () => {
    const env = { ...process.env, TZ: "UTC" };
    const lines = Bun.spawnSync(["dpkg-deb", "--contents", path], { env })
      .stdout.toString()
      .trim()
      .split("\n");
    const entries = lines.map((line) => {
      const [mode, owner, , date, time, name = ""] = line.split(/ +/);
      expect([name, `${date} ${time}`, owner]).toEqual([name, TIME, "root/root"]);
      return `${mode} ${name}`;
    });
    const folders = entries.filter((entry) => entry.startsWith("d"));
    expect(folders.filter((entry) => !entry.startsWith("drwxr-xr-x "))).toEqual([
      "drwxr-x--- ./etc/claviger/",
    ]);
    expect(entries.filter((entry) => !entry.startsWith("d"))).toEqual([
      "-rw-r----- ./etc/claviger/claviger.env",
      "-rwxr-xr-x ./usr/bin/claviger",
      "-rw-r--r-- ./usr/lib/claviger/origin",
      "-rw-r--r-- ./usr/lib/systemd/system/claviger-backup.service",
      "-rw-r--r-- ./usr/lib/systemd/system/claviger-backup.timer",
      "-rw-r--r-- ./usr/lib/systemd/system/claviger-failed@.service",
      "-rw-r--r-- ./usr/lib/systemd/system/claviger.service",
      "-rw-r--r-- ./usr/lib/systemd/system/claviger@.service",
      "-rw-r--r-- ./usr/lib/sysusers.d/claviger.conf",
      "-rw-r--r-- ./usr/share/bash-completion/completions/claviger",
      "-rw-r--r-- ./usr/share/doc/claviger/changelog.gz",
      "-rw-r--r-- ./usr/share/doc/claviger/copyright",
      "-rw-r--r-- ./usr/share/fish/vendor_completions.d/claviger.fish",
      "-rw-r--r-- ./usr/share/lintian/overrides/claviger",
      "-rw-r--r-- ./usr/share/man/man1/claviger.1.gz",
      "-rw-r--r-- ./usr/share/zsh/vendor-completions/_claviger",
    ]);
    expect(read("usr/lib/claviger/origin")).toBe("package\n");
    expect(read("usr/share/doc/claviger/copyright")).toBe(notices);
  });

  test("has the name, version and architecture in its control file, and one file of settings", () => {
    expect(path).toEndWith(`/claviger_${packageJson.version}_arm64.deb`);
    const field = (name: string) => runTool(["dpkg-deb", "--field", path, name], folder).trim();
    expect(["Package", "Version", "Architecture", "Installed-Size"].map(field)).toEqual([
      "claviger",
      packageJson.version,
      "arm64",
      expect.stringMatching(/^\d+$/),
    ]);
    expect(readdirSync(join(content, "DEBIAN")).sort()).toEqual([
      "conffiles",
      "control",
      "md5sums",
      "postinst",
      "postrm",
      "prerm",
    ]);
    expect(read("DEBIAN/conffiles")).toBe("/etc/claviger/claviger.env\n");
    runTool(["md5sum", "--check", "--quiet", "DEBIAN/md5sums"], content);
    expect(read("DEBIAN/md5sums").trim().split("\n")).toHaveLength(15);
    expect(runTool(["ar", "t", path], folder).trim().split("\n")).toEqual([
      "debian-binary",
      "control.tar.xz",
      "data.tar.xz",
    ]);
  });

  test("has the units that the command prints, for its own executable", () => {
    const units = [
      ["claviger.service", print("systemd", "--binary", "/usr/bin/claviger")],
      ["claviger@.service", print("systemd", "--binary", "/usr/bin/claviger", "--template")],
      ...UNITS.map((name) => [name, print("systemd", "--binary", "/usr/bin/claviger", "--unit", name)]),
    ];
    for (const [name, text] of units) expect(read(`usr/lib/systemd/system/${name}`)).toBe(text ?? "");
    expect(read("usr/lib/systemd/system/claviger.service")).toContain(
      "\nExecStart=/usr/bin/claviger serve\n",
    );
    expect(readdirSync(join(content, "usr/lib/systemd/system")).sort()).toEqual(
      units.map(([name = ""]) => name).sort(),
    );
    expect(read("usr/lib/sysusers.d/claviger.conf")).toBe(print("systemd", "--sysusers"));
    // The manual installs the same units by the same command.
    expect(findGuidePage("service")?.text).toContain(
      `for unit in ${UNITS.join(" ")}; do\n  claviger systemd --unit $unit > /etc/systemd/system/$unit\ndone\n`,
    );
  });

  test("has a changelog with the changes of its version only, and the man page", () => {
    const unzip = (name: string) => gunzipSync(readFileSync(join(content, name))).toString();
    const changelog = unzip("usr/share/doc/claviger/changelog.gz");
    expect(changelog).toStartWith(`claviger (${packageJson.version}) stable; urgency=medium\n\n  Upgrade\n`);
    expect(changelog).toEndWith("\n\n -- Claviger <claviger@example.org>  Tue, 14 Nov 2023 22:13:20 +0000\n");
    expect(changelog).not.toMatch(/^ *\d+\.\d+\.\d+$/m);
    expect(unzip("usr/share/man/man1/claviger.1.gz")).toBe(print("guide", "--man"));
  });

  test("gives the same bytes in a folder of another length, with another umask and time zone", async () => {
    const before = process.umask(0o077);
    try {
      const other = await build("another-and-longer");
      expect(readFileSync(other).equals(readFileSync(path))).toBe(true);
    } finally {
      process.umask(before);
    }
  });

  test("has scripts for every POSIX shell, which start nothing at the installation", () => {
    for (const name of ["postinst", "prerm", "postrm"]) {
      runTool(["sh", "-n", join(content, "DEBIAN", name)], folder);
      if (isInCi || Bun.which("shellcheck") !== null)
        runTool(["shellcheck", "-s", "sh", join(content, "DEBIAN", name)], folder);
      expect(read(`DEBIAN/${name}`)).not.toMatch(/^[^#]*(systemctl|invoke) (enable|start|restart)/m);
    }
  });

  test("purges also if an empty folder cannot be removed because a disk is mounted there, and says that it is kept", () => {
    const root = join(folder, "purged");
    const data = join(root, "var/lib/claviger");
    const backups = join(root, "var/backups/claviger");
    for (const each of [data, backups]) mkdirSync(each, { recursive: true });
    const script = read("DEBIAN/postrm").replaceAll(/(?<=[ "])\/(?=etc|var)/g, `${root}/`);
    // What the kernel answers for a mount point, also for an empty one.
    const mounted = `rmdir() {
      case $* in *${data}) echo "rmdir: failed to remove '${data}': Device or resource busy" >&2; return 1 ;; esac
      command rmdir "$@"
    }`;
    const { exitCode, stdout, stderr } = Bun.spawnSync(["sh", "-c", `${mounted}\n${script}`, "sh", "purge"]);
    expect([exitCode, stdout.toString(), stderr.toString()]).toEqual([
      0,
      `claviger: ${data} is kept; remove it yourself if you need it no more\n`,
      "",
    ]);
    expect([existsSync(data), existsSync(backups)]).toEqual([true, false]);
  });

  test.each(["remove", "purge"])("names the units of the administrator on %s, and keeps them", (action) => {
    const root = join(folder, `own-units-${action}`);
    const units = join(root, "etc/systemd/system");
    mkdirSync(join(units, "claviger.service.d"), { recursive: true });
    for (const name of ["claviger.service", "claviger@.service", "other.service"])
      writeFileSync(join(units, name), "");
    const script = read("DEBIAN/postrm").replaceAll(/(?<=[ "])\/(?=etc|var|run)/g, `${root}/`);
    const { exitCode, stdout } = Bun.spawnSync(["sh", "-c", script, "sh", action]);
    const kept = (name: string) =>
      `claviger: ${join(units, name)} is kept, because you wrote it; run 'systemctl disable ${name}' and remove it\n`;
    expect([exitCode, stdout.toString()]).toEqual([0, kept("claviger.service") + kept("claviger@.service")]);
    expect(readdirSync(units)).toHaveLength(4);
  });

  test.skipIf(!isInCi && Bun.which("lintian") === null)("is accepted by lintian", () => {
    const shown = runTool(
      ["lintian", "--allow-root", "--fail-on", "none", "--tag-display-limit", "0", path],
      folder,
    );
    expect(shown.split("\n").filter((line) => line.startsWith("E:"))).toEqual([]);
  });
});
