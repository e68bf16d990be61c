import { join } from "node:path";

export interface ServeOptions {
  /** The folder of the process. */
  readonly cwd: string;
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** The main file, of this or another version; by default of this checkout. */
  readonly main?: string | undefined;
  /** 0, the default, lets the system choose. */
  readonly port?: number;
}

export interface ServeProcess {
  readonly pid: number;
  readonly url: string;
  /** Ends the process with that signal, and waits until it has ended. */
  kill(signal: NodeJS.Signals): Promise<void>;
}

const MAIN = join(import.meta.dir, "../../src/main.ts");

/** Runs `serve` as operators do, and waits until it serves. */
export async function startServeProcess({
  cwd,
  env,
  main = MAIN,
  port = 0,
}: ServeOptions): Promise<ServeProcess> {
  const command = [process.execPath, main, "serve", "--port", String(port), "--env-file", "/dev/null"];
  const child = Bun.spawn(command, { cwd, env, stdout: "pipe", stderr: "pipe", stdin: "ignore" });
  const log = new Response(child.stderr).text();
  const reader = child.stdout.getReader();
  let out = "";
  while (!/serves at (\S+)\n/.test(out)) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`The process ended: ${await log}`);
    out += new TextDecoder().decode(value);
  }
  return {
    pid: child.pid,
    url: /serves at (\S+)\n/.exec(out)?.[1] ?? "",
    async kill(signal) {
      child.kill(signal);
      await child.exited;
    },
  };
}
