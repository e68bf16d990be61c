import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { dirname, join } from "node:path";

/**
 * Returns how many bytes of memory the processes of this service may use: those of the host, or the limit of the
 * control group (or of a group that contains it), whichever is less. `root` is where /proc and /sys are.
 */
export function hostMemoryBytes({ root = "/", totalBytes = totalmem() } = {}): number {
  let least = totalBytes;
  // A line for each hierarchy, such as `0::/system.slice/claviger.service`; the memory of version 1 is `4:memory:/…`.
  const groups = read(join(root, "proc/self/cgroup")).matchAll(/^\d+:(|memory):(\/.*)$/gm);
  for (const [, controller, path = ""] of groups) {
    const [folder, file] = controller ? ["memory", "memory.limit_in_bytes"] : ["", "memory.max"];
    for (let group = path; ; group = dirname(group)) {
      // No limit is `max`, or in version 1 a number larger than any memory. In a container the path may not exist.
      const limit = Number.parseInt(read(join(root, "sys/fs/cgroup", folder, group, file)), 10);
      if (limit < least) least = limit;
      if (group === "/") break;
    }
  }
  return least;
}

/** Reads a file of the kernel; empty if there is none. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
