/** Runs commands on the database of a test, to compare their results with those of the API. */

import type { Clock } from "../../src/base/clock.ts";
import { type CommandLine, createCommandLine, type Ended, type RunOptions } from "../cli/command_line.ts";
import type { TestDatabase } from "../support/database.ts";
import { type FaultyProxy, startFaultyProxy } from "../support/faulty_proxy.ts";
import { TEST_SECRET } from "../support/secrets.ts";

export interface CommandsOn {
  run(args: readonly string[], options?: RunOptions): Promise<Ended>;
  // biome-ignore lint/suspicious/noExplicitAny: tests read documents of every shape.
  json(args: readonly string[]): Promise<any>;
  close(): Promise<void>;
}

/** Starts a proxy, because commands reach a database only by an address. */
export async function commandsOn(
  { address }: TestDatabase,
  clock: Clock,
  settings: Readonly<Record<string, string>> = {},
): Promise<CommandsOn> {
  const proxy: FaultyProxy = await startFaultyProxy(address);
  const line: CommandLine = createCommandLine();
  const env = { DATABASE_URL: proxy.address.url, CLAVIGER_SECRET: TEST_SECRET, ...settings };
  return {
    run: (args, options) => line.here(args, { ...options, env, clock }),
    json: (args) => line.json(args, { env, clock }),
    async close() {
      await proxy.close();
      line.remove();
    },
  };
}
