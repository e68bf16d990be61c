/** The clients of the page `sdk` in every language, installed as users do it, and a server with scripted answers. */
import { readFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { NODE } from "../support/node_process.ts";

export const MODULES = join(import.meta.dir, "../../src/cli/guide/sdk");

export interface Language {
  readonly name: string;
  /** The interpreter with its options. */
  readonly command: readonly string[];
  readonly module: string;
}

/** The interpreter itself, since `python3` may be a script that first searches for one. */
function findPython(): string | undefined {
  if (Bun.which("python3") === null) return undefined;
  const { exitCode, stdout } = Bun.spawnSync(["python3", "-c", "import sys; print(sys.executable)"]);
  return exitCode === 0 ? stdout.toString().trim() : undefined;
}

const python = findPython();
/** The proof of the versions says which Node it tries. */
const node = process.env.CLIENT_NODE ?? NODE;
const hasCurl = Bun.which("curl") !== null;
const busybox = Bun.which("busybox");
if (python === undefined) console.warn("Skipped the client in Python: python3 is missing");
if (!hasCurl) console.warn("Skipped the client in shell: curl is missing");

const shells = [["sh"], ["bash"], ...(busybox === null ? [] : [[busybox, "sh"]])].filter(
  ([shell = ""]) => hasCurl && Bun.which(shell) !== null,
);

/** Every language that this machine has; the shell is once for each kind of shell. */
export const LANGUAGES: readonly Language[] = [
  ...(python === undefined
    ? []
    : [{ name: "Python", command: [python, "-B"], module: join(MODULES, "claviger_client.py") }]),
  {
    name: "TypeScript on Bun",
    command: [process.execPath, "run"],
    module: join(MODULES, "claviger_client.ts"),
  },
  { name: "TypeScript on Node", command: [node], module: join(MODULES, "claviger_client.ts") },
  ...shells.map((command) => ({
    name: `shell (${command.join(" ")})`,
    command,
    module: join(MODULES, "claviger_client.sh"),
  })),
];

/** What a user sets beside the address and the key. */
export type Settings = Readonly<Record<string, string>>;

/** Returns a function that installs clients: each has its settings, and a state file of its own in the folder. */
export function createInstaller(folder: string, key: string) {
  return ({ command, module }: Language, url: string, more: Settings = {}) => {
    const stateFile = more.LICENSE_STATE ?? join(folder, `${crypto.randomUUID()}.json`);
    const env = {
      PATH: process.env.PATH ?? "",
      LICENSE_URL: url,
      LICENSE_KEY: key,
      LICENSE_STATE: stateFile,
      LICENSE_FINGERPRINT: "workstation-7",
      ...more,
    };
    const startArguments = (args: readonly string[]) => {
      const client = Bun.spawn([...command, ...args], {
        env,
        stdout: "pipe",
        stderr: "pipe",
        // A client that a failed test leaves behind ends by itself.
        timeout: 100_000,
      });
      const lines: string[] = [];
      const reading = (async () => {
        for await (const part of client.stderr.pipeThrough(new TextDecoderStream()))
          lines.push(...part.split("\n").filter((line) => line !== ""));
      })();
      return { client, lines, reading };
    };
    const runArguments = async (args: readonly string[]) => {
      const { client, lines, reading } = startArguments(args);
      const out = await client.stdout.text();
      const status = await client.exited;
      await reading;
      return { status, out, lines: lines.map(withoutTimes) };
    };
    return {
      stateFile,
      start: (argument: string) => startArguments([module, argument]),
      /** Runs the interpreter with other arguments to its end. */
      runArguments,
      readState: () => JSON.parse(readFileSync(stateFile, "utf8")),
      /** Runs a command to its end. */
      run: (argument: string) => runArguments([module, argument]),
    };
  };
}

/** Returns a line without what differs from run to run or from language to language: times, and why there was no answer. */
export function withoutTimes(line: string): string {
  return line.replace(/\d{4}-\d\d-\d\dT[\d:]+Z/, "TIME").replace(/no answer: [^;]{3,}/, "no answer: WHY");
}

export interface ScriptedAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: object;
}

/** An answer, a connection that is closed without one, or one that is closed in the middle of a success. */
export type Scripted = ScriptedAnswer | (() => ScriptedAnswer) | "close" | "cut";

export interface ScriptedServer extends Disposable {
  readonly url: string;
  /** The paths of all requests, and the fields of the bodies. */
  readonly requests: { readonly path: string; readonly fields: Record<string, unknown> }[];
  /** Adds answers to those that are left. A request without an answer is closed. */
  answerWith(...answers: readonly Scripted[]): void;
}

/** Starts a server that answers each request with the next answer, byte for byte, and closes the connection. */
export async function startScriptedServer(): Promise<ScriptedServer> {
  const left: Scripted[] = [];
  const requests: { path: string; fields: Record<string, unknown> }[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    let text = "";
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    socket.setEncoding("utf8");
    socket.on("data", (part) => {
      text += part;
      const [head = "", body = ""] = text.split("\r\n\r\n");
      const [, length = "0"] = /^content-length: (\d+)$/im.exec(head) ?? [];
      if (!text.includes("\r\n\r\n") || Buffer.byteLength(body) < Number(length)) return;
      requests.push({ path: head.split(" ")[1] ?? "", fields: JSON.parse(body) });
      const answer = left.shift() ?? "close";
      if (answer === "close") socket.destroy();
      else if (answer === "cut") socket.end(render(seat(600)()).slice(0, -20));
      else socket.end(render(typeof answer === "function" ? answer() : answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" ? address?.port : undefined;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    answerWith: (...answers) => void left.push(...answers),
    [Symbol.dispose]() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function render({ status, headers = {}, body }: ScriptedAnswer): string {
  const text = JSON.stringify(body);
  const lines = { Date: new Date().toUTCString(), "Content-Length": Buffer.byteLength(text), ...headers };
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} X\r\n${head.join("")}Connection: close\r\n\r\n${text}`;
}

export const MACHINE_ID = "mch_01a1fe1802a3718185e41c7c714fa538";

/** The answer to an activation or a heartbeat of a seat that ends so many seconds after the answer. */
export function seat(seconds: number): () => ScriptedAnswer {
  return () => {
    const expiresAt = new Date(Date.now() + seconds * 1_000).toISOString().replace(/\.\d+/, "");
    return { status: 200, body: { machine_id: MACHINE_ID, expires_at: expiresAt } };
  };
}

/** An error of the service. */
export function refusal(status: number, code: string, retryAfter?: number): ScriptedAnswer {
  const headers: Record<string, string> = {};
  if (retryAfter !== undefined) headers["Retry-After"] = String(retryAfter);
  return { status, headers, body: { error: "A sentence", code } };
}
