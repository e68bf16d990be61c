/** The program on Bun, and so the executable: arguments in, exit status out. */
import { userInfo } from "node:os";
import { runCommandLine } from "./cli/mod.ts";
import { systemClock } from "./clock.ts";
import { bunPlatform } from "./platform/bun/mod.ts";

const status = await runCommandLine(process.argv.slice(2), {
  platform: bunPlatform,
  clock: systemClock,
  env: process.env,
  workingFolder: process.cwd(),
  isRoot: process.getuid?.() === 0,
  userName: process.env.SUDO_USER ?? nameOfUser(),
  isTerminal: process.stderr.isTTY === true,
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  readInput,
  untilSignal: () =>
    new Promise((resolve) => {
      for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve(signal));
    }),
});
process.exit(status);

/** A user without an entry in the password file has a number only. */
function nameOfUser(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? "unknown");
  }
}

async function readInput(limitBytes: number): Promise<string | undefined> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of process.stdin) {
    bytes += chunk.length;
    if (bytes > limitBytes) return undefined;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
