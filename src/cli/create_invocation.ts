/** Reads from the process how a command was called. Both entries use it, on Bun and on Node. */
import { write, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../base/clock.ts";
import { findSystemUser } from "../base/host/mod.ts";
import { hasCode } from "../base/system_error.ts";
import type { Invocation } from "./invocation.ts";

const { stdin, stdout, stderr, env } = process;

/** The width of a terminal that does not tell its width. */
const USUAL_COLUMNS = 80;

/** Reads the invocation from this process; `entry` has the parts that differ between the entries. */
export function createInvocation(entry: Pick<Invocation, "platform" | "programName">): Invocation {
  const isTyped = stdin.isTTY === true;
  // The program that read our log may have ended: the service goes on.
  stderr.on("error", () => {});
  const output = createOutput();
  return {
    clock: systemClock,
    env,
    workingFolder: process.cwd(),
    isRoot: process.getuid?.() === 0,
    userName: env.SUDO_USER ?? nameOfUser(),
    isTerminal: stderr.isTTY === true,
    isTyped,
    columns: stdout.isTTY ? stdout.columns || USUAL_COLUMNS : undefined,
    // Source: no-color.org.
    hasColours: !env.NO_COLOR && env.TERM !== "dumb",
    input: stdin,
    ...output,
    err: (text) => void stderr.write(text),
    readInput: (limitBytes, prompt = "Enter it as one line: ") =>
      readInput(limitBytes, isTyped ? prompt : undefined),
    untilSignal: (signals = ["SIGTERM", "SIGINT", "SIGHUP"]) =>
      new Promise((resolve) => {
        for (const signal of signals) process.once(signal, () => resolve(signal));
      }),
    onSignal: (signal, handler) => void process.on(signal, handler),
    exitNow: (status) => process.exit(status),
    ...entry,
  };
}

/**
 * Writes each whole text before it returns: text in a stream's buffer would be lost when the process ends. After a fault
 * nothing more is written, and the command still finishes its work.
 */
function createOutput(): Required<Pick<Invocation, "out" | "write" | "outputFault">> {
  let fault: unknown;
  return {
    out(text) {
      let rest = Buffer.from(text);
      while (rest.length > 0 && fault === undefined) {
        try {
          rest = rest.subarray(writeSync(1, rest));
        } catch (error) {
          // A pipe in non-blocking mode is full: wait a little for its reader.
          if (hasCode(error, "EAGAIN")) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
          else fault = error;
        }
      }
    },
    async write(text) {
      let rest = Buffer.from(text);
      while (rest.length > 0 && fault === undefined) {
        try {
          rest = rest.subarray(await writeLater(rest));
        } catch (error) {
          if (hasCode(error, "EAGAIN")) await sleep(5);
          else fault = error;
        }
      }
    },
    outputFault: () => fault,
  };
}

function writeLater(bytes: Buffer): Promise<number> {
  return new Promise((resolve, reject) =>
    write(1, bytes, (error, written) => (error === null ? resolve(written) : reject(error))),
  );
}

/** Finds the name by the user's number, because Bun uses $USER, which may be missing. */
function nameOfUser(): string {
  const id = process.getuid?.();
  if (id === undefined) return "unknown";
  return findSystemUser(id)?.name ?? env.USER ?? String(id);
}

/** Reads standard input to its end. With a prompt a person types, and it reads one line. Undefined above the limit. */
async function readInput(limitBytes: number, prompt: string | undefined): Promise<string | undefined> {
  if (prompt !== undefined) stderr.write(prompt);
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of stdin) {
    bytes += chunk.length;
    if (bytes > limitBytes) return undefined;
    text += decoder.decode(chunk, { stream: true });
    if (prompt !== undefined && text.endsWith("\n")) break;
  }
  return text + decoder.decode();
}
