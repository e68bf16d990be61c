/** Mounts a small disk that a test can fill, for one data folder: a tmpfs, which only root may mount. */
import { spawnSync } from "node:child_process";
import { chmodSync, closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";

export interface SmallDisk {
  /** Writes until no block is free. */
  fill(): void;
  /** Removes the filler. */
  free(): void;
  unmount(): void;
}

/** Enough for PostgreSQL's programs, a cluster and its log. */
const SIZE_MB = 320;

/** Returns the reason why no disk can be mounted here; undefined if one can. */
export function whyNoSmallDisk(folder: string): string | undefined {
  if (process.getuid?.() !== 0) return "only root may mount a small disk";
  const trial = mkdtempSync(join(folder, "trial-mount-"));
  const mounted = mount(trial);
  if (mounted === undefined) spawnSync("umount", [trial]);
  rmSync(trial, { recursive: true });
  return mounted;
}

export function mountSmallDisk(folder: string): SmallDisk {
  mkdirSync(folder);
  const failure = mount(folder);
  if (failure !== undefined) throw new Error(`Cannot mount ${folder}: ${failure}`);
  chmodSync(folder, 0o711);
  const ballast = join(folder, "ballast");
  return {
    fill() {
      const file = openSync(ballast, "w");
      for (const size of [1 << 20, 1 << 12]) {
        const block = Buffer.alloc(size, 1);
        try {
          for (;;) writeSync(file, block);
        } catch (error) {
          const isFull = error instanceof Error && "code" in error && error.code === "ENOSPC";
          if (!isFull) throw error;
        }
      }
      closeSync(file);
    },
    free: () => rmSync(ballast, { force: true }),
    unmount() {
      const { status, stderr } = spawnSync("umount", [folder], { encoding: "utf8" });
      if (status !== 0) throw new Error(`Cannot unmount ${folder}: ${stderr.trim()}`);
    },
  };
}

function mount(folder: string): string | undefined {
  const options = `size=${SIZE_MB}m,mode=711`;
  const { status, stderr, error } = spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder], {
    encoding: "utf8",
  });
  return status === 0 ? undefined : (error?.message ?? stderr.trim());
}
