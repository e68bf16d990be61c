/** A command line for the tests of a file, and a service that `serve` runs in this process on its data folder. */
import { afterAll } from "bun:test";
import { useForAll } from "../support/use.ts";
import {
  type CommandLine,
  type CommandLineOptions,
  createCommandLine,
  type RunOptions,
} from "./command_line.ts";

/** The line can be used at once. Its folder is removed after the tests of the file, or of the `describe`. */
export function useCommandLine(options?: CommandLineOptions): CommandLine {
  const line = createCommandLine(options);
  afterAll(() => line.remove());
  return line;
}

/** The line can be used at once; the service runs from the first test on. */
export function useServing(args: readonly string[] = [], options: RunOptions = {}) {
  const line = createCommandLine({ prepared: true });
  const service = useForAll(async () => {
    const running = await line.serve(args, options);
    return {
      ...running,
      post: (path: string, body: object) => postJson(running.url + path, body),
      async close() {
        await running.stop();
        line.remove();
      },
    };
  });
  return { line, service };
}

/** Sends a body as JSON; returns the status and the parsed answer. */
export async function postJson(url: string, body: object) {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  // biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape.
  return { status: response.status, body: (await response.json()) as any };
}
