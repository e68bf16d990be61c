/**
 * The program after an attacker has taken over its process with the rights of the data folder's owner. In place of the
 * command, that process runs the shell line in the file `hijack` next to the data folder.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const { argv } = process;
if (argv[2] === "--as-owner") {
  const dataDir = argv[argv.indexOf("--data-dir") + 1] ?? "";
  const line = readFileSync(join(dirname(dataDir), "hijack"), "utf8");
  const stdio = ["ignore", "inherit", "inherit", "ignore", 4] as const;
  const child = spawn("bash", ["-c", line], { stdio: [...stdio], cwd: "/" });
  child.on("exit", (status) => process.exit(status ?? 1));
} else await import("../../src/main.ts");
