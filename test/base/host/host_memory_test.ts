import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { hostMemoryBytes } from "../../../src/base/host/mod.ts";
import { useFolder } from "../../support/use_folder.ts";

const GB = 2 ** 30;
const folder = useFolder();
let made = 0;

/** Returns the memory of a host of 16 GB with these files. */
function memoryWith(files: Readonly<Record<string, string>>): number {
  const root = join(folder, `${++made}`);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return hostMemoryBytes({ root, totalBytes: 16 * GB }) / GB;
}

test("hostMemoryBytes() is the memory of the host without a control group", () => {
  expect(memoryWith({})).toBe(16);
  expect(hostMemoryBytes()).toBeGreaterThan(GB / 8);
});

test("hostMemoryBytes() is the least limit of the control group and of those that contain it", () => {
  const files = {
    "proc/self/cgroup": "0::/system.slice/claviger.service\n",
    "sys/fs/cgroup/system.slice/claviger.service/memory.max": "max\n",
    "sys/fs/cgroup/system.slice/memory.max": `${4 * GB}\n`,
  };
  expect(memoryWith(files)).toBe(4);
  expect(memoryWith({ ...files, "sys/fs/cgroup/system.slice/claviger.service/memory.max": `${GB}\n` })).toBe(
    1,
  );
  expect(memoryWith({ ...files, "sys/fs/cgroup/system.slice/memory.max": `${64 * GB}\n` })).toBe(16);
});

test("hostMemoryBytes() is the limit of a container, whose group is the root or has another path outside", () => {
  for (const path of ["/", "/docker/0123"])
    expect(
      memoryWith({ "proc/self/cgroup": `0::${path}\n`, "sys/fs/cgroup/memory.max": `${2 * GB}\n` }),
    ).toBe(2);
});

test("hostMemoryBytes() knows control groups of version 1, which write a huge number for no limit", () => {
  const files = { "proc/self/cgroup": "9:cpu:/other\n4:memory:/claviger\n0::/\n" };
  const limitOf = (limit: string) =>
    memoryWith({ ...files, "sys/fs/cgroup/memory/claviger/memory.limit_in_bytes": limit });
  expect(limitOf("9223372036854771712\n")).toBe(16);
  expect(limitOf(`${3 * GB}\n`)).toBe(3);
});
