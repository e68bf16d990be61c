/**
 * Writes a container image as one file (an OCI archive) with tar and umoci, without root and without a container
 * engine.
 *
 * The same folders give the same bytes: each entry has the time that the caller names, an owner and a mode from here,
 * and a fixed place.
 */
import { existsSync, mkdtempDisposableSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Architecture } from "./debian_packages.ts";
import { runTool } from "./run_tool.ts";

interface Image {
  /** The name that container engines show, such as `claviger:0.4.0`. */
  readonly name: string;
  readonly architecture: Architecture;
  /** The time of the image and of every file in it, in seconds since 1970. */
  readonly createdAtSeconds: number;
  /** The folders whose content the image holds, one layer each, the lowest first. */
  readonly layers: readonly { readonly folder: string; readonly comment: string }[];
  readonly labels: Readonly<Record<string, string>>;
}

/** The user and the group as which the container runs. */
export const USER_ID = 10_001;

const USUAL_RIGHTS = ["--owner=0", "--group=0", "--mode=u+rw,go=u,go-w"];

/** The folders that have another owner or mode than the rest. */
const SPECIAL = [
  { path: "data", rights: [`--owner=${USER_ID}`, `--group=${USER_ID}`, "--mode=0755"] },
  { path: "tmp", rights: ["--owner=0", "--group=0", "--mode=1777"] },
];

const CONFIG = [
  `--config.user=${USER_ID}:${USER_ID}`,
  "--config.entrypoint=/usr/bin/claviger",
  "--config.cmd=serve",
  "--config.env=PATH=/usr/bin:/bin",
  "--config.env=CLAVIGER_DATA_DIR=/data/claviger",
  // A restore from standard input keeps the backup here meanwhile, and a container may have no other disk.
  "--config.env=TMPDIR=/data",
  // All addresses of the container. Who starts it decides which address of the host leads there.
  "--config.env=CLAVIGER_HOST=0.0.0.0",
  "--config.exposedports=8080/tcp",
  "--config.volume=/data",
  "--config.workingdir=/data",
  "--config.stopsignal=SIGTERM",
];

/** Writes the image to `outfile`. */
export function writeImage(image: Image, outfile: string): void {
  using work = mkdtempDisposableSync(join(tmpdir(), "claviger-image-"));
  const umoci = (...args: string[]) => runTool(["umoci", ...args], work.path);
  // No archive depends on umask, user, time or the order of a folder.
  const fixed = ["--format=gnu", "--sort=name", `--mtime=@${image.createdAtSeconds}`, "--numeric-owner"];
  const pack = (from: string, archive: string, args: readonly string[]) =>
    runTool(["tar", `--file=${archive}`, ...fixed, ...args], from);

  const created = new Date(image.createdAtSeconds * 1000).toISOString();
  const at = `--image=layout:${image.name}`;
  umoci("init", "--layout=layout");
  umoci("new", at);
  for (const { folder, comment } of image.layers) {
    const archive = join(work.path, "layer.tar");
    const special = SPECIAL.filter(({ path }) => existsSync(join(folder, path)));
    const rest = [...special.map(({ path }) => `--exclude=./${path}`), "."];
    pack(folder, archive, ["--create", ...USUAL_RIGHTS, ...rest]);
    for (const { path, rights } of special) pack(folder, archive, ["--append", ...rights, `./${path}`]);
    umoci("raw", "add-layer", at, `--history.created=${created}`, `--history.created_by=${comment}`, archive);
  }
  const labels = Object.entries(image.labels).map(([name, value]) => `--config.label=${name}=${value}`);
  const platform = ["--os=linux", `--architecture=${image.architecture}`, `--created=${created}`];
  umoci("config", at, "--no-history", ...platform, ...CONFIG, ...labels);
  umoci("gc", "--layout=layout");
  pack(join(work.path, "layout"), resolve(outfile), ["--create", ...USUAL_RIGHTS, "."]);
}
