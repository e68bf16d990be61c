/**
 * The executable as an operator has installed it: one service, commands while the service runs, and HTTP as clients
 * send it. `make test-executable` builds it first; without an executable all these tests are skipped.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Ended } from "../cli/command_line.ts";
import type { ServiceProcess } from "../support/service_process.ts";
import { builtExecutable, createPlace, type Place, type ServeOptions } from "./executable.ts";

export const isBuilt = existsSync(builtExecutable);
if (!isBuilt) console.error(`There is no ${builtExecutable}: make build makes it`);

/** Commands start an executable of 120 MB, on a machine that may be busy. */
export const TEST_LIMIT_MS = 60_000;

export interface Installed {
  readonly place: Place;
  readonly dataDir: string;
  /** The service that was started last. */
  readonly service: ServiceProcess;
  /** Starts the service on the data folder. */
  start(options?: ServeOptions): Promise<ServiceProcess>;
  /** Runs a command on the data folder. */
  run(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ended>;
  /** Runs a command with `--json` and returns its parsed output; throws if the command fails. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read documents of every shape.
  json(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape.
  get(path: string, headers?: Record<string, string>): Promise<any>;
  remove(): Promise<void>;
}

export function install(): Installed {
  const place = createPlace();
  const dataDir = join(place.folder, "data");
  let service: ServiceProcess | undefined;
  const running = () => {
    if (service === undefined) throw new Error("No service was started");
    return service;
  };

  const run: Installed["run"] = (args, env) => place.run([...args, "--data-dir", dataDir], env);
  const json: Installed["json"] = async (args, env) => {
    const { status, out, err } = await run([...args, "--json"], env);
    if (status !== 0) throw new Error(err);
    return JSON.parse(out);
  };

  return {
    place,
    dataDir,
    get service() {
      return running();
    },
    async start(options) {
      service = await place.serve(dataDir, options);
      return service;
    },
    run,
    json,
    get: async (path, headers = {}) => (await fetch(running().url + path, { headers })).json(),
    remove: () => place.remove(),
  };
}
