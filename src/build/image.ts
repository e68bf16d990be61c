/**
 * Writes a container image as one file (an OCI archive) with tar and umoci, without root and without a container
 * engine.
 *
 * The same folders give the same bytes: each entry has the time that the caller names, an owner and a mode from here,
 * and a fixed place.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Architecture } from "./debian_packages.ts";
import { run } from "./run.ts";

export interface Image {
  /** The name that container engines show, such as `claviger:0.3.0`. */
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

/** The folders that have another owner or mode than the rest. */
const SPECIAL = [
  { path: "data", owner: USER_ID, mode: "0755" },
  { path: "tmp", owner: 0, mode: "1777" },
] as const;

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
  const folder = mkdtempSync(join(tmpdir(), "claviger-image-"));
  try {
    const created = new Date(image.createdAtSeconds * 1000).toISOString();
    const at = `--image=layout:${image.name}`;
    run(["umoci", "init", "--layout=layout"], folder);
    run(["umoci", "new", at], folder);
    for (const layer of image.layers) {
      const archive = join(folder, "layer.tar");
      packLayer(layer.folder, { archive, seconds: image.createdAtSeconds });
      const history = [`--history.created=${created}`, `--history.created_by=${layer.comment}`];
      run(["umoci", "raw", "add-layer", at, ...history, archive], folder);
    }
    const labels = Object.entries(image.labels).map(([name, value]) => `--config.label=${name}=${value}`);
    const platform = ["--os=linux", `--architecture=${image.architecture}`, `--created=${created}`];
    run(["umoci", "config", at, "--no-history", ...platform, ...CONFIG, ...labels], folder);
    run(["umoci", "gc", "--layout=layout"], folder);
    pack(["."], {
      from: join(folder, "layout"),
      archive: resolve(outfile),
      seconds: image.createdAtSeconds,
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function packLayer(from: string, { archive, seconds }: { archive: string; seconds: number }): void {
  const special = SPECIAL.filter(({ path }) => existsSync(join(from, path)));
  pack([...special.map(({ path }) => `--exclude=./${path}`), "."], { from, archive, seconds });
  for (const { path, owner, mode } of special) {
    pack([`./${path}`], { from, archive, seconds, owner, mode, action: "--append" });
  }
}

interface PackOptions {
  readonly from: string;
  readonly archive: string;
  readonly seconds: number;
  readonly owner?: number;
  readonly mode?: string;
  readonly action?: "--create" | "--append";
}

/** Packs paths so that the archive does not depend on umask, user, time or the order of a folder. */
function pack(paths: readonly string[], options: PackOptions): void {
  const { from, archive, seconds, owner = 0, mode = "u+rw,go=u,go-w", action = "--create" } = options;
  const fixed = ["--format=gnu", "--sort=name", `--mtime=@${seconds}`, "--numeric-owner"];
  const owners = [`--owner=${owner}`, `--group=${owner}`, `--mode=${mode}`];
  run(["tar", action, `--file=${archive}`, ...fixed, ...owners, ...paths], from);
}
