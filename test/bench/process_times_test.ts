import { expect, test } from "bun:test";
import { cpuSecondsOf, cpuSecondsOfTree } from "./process_times.ts";

test("cpuSecondsOfTree() counts a child that has ended, such as a backend of PostgreSQL", async () => {
  const loop = "for ((i = 0; i < 200000; i++)); do :; done";
  await using parent = Bun.spawn(["bash", "-c", `bash -c '${loop}'; echo ended; read -r`], {
    stdin: "pipe",
    stdout: "pipe",
  });
  const { value } = await parent.stdout.getReader().read();
  expect(new TextDecoder().decode(value)).toBe("ended\n");
  expect(cpuSecondsOfTree(parent.pid) - cpuSecondsOf(parent.pid)).toBeGreaterThan(0.05);
});
