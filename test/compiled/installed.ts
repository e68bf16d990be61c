/**
 * The executable as an operator has installed it: one service, commands while the service runs, and HTTP as clients
 * send it. `make test-executable` builds it first; without an executable all these tests are skipped.
 */
import { expect } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { JsonResponse } from "../support/service.ts";
import {
  builtExecutable,
  createPlace,
  type Ended,
  type Place,
  type RunningProcess,
  type ServeOptions,
} from "./executable.ts";

export const isBuilt = existsSync(builtExecutable);
if (!isBuilt) console.error(`There is no ${builtExecutable}: make build makes it`);

/** Commands start an executable of 130 MB, on a machine that may be busy. */
export const TEST_LIMIT_MS = 60_000;
/** The time in which a change by command must be in force in a running service. */
const WITHIN_MS = 1_000;

export interface Installed {
  readonly place: Place;
  readonly dataDir: string;
  /** The service that was started last. */
  readonly service: RunningProcess;
  /** Starts the service on the data folder, with limits that no test reaches. */
  start(options?: ServeOptions): Promise<RunningProcess>;
  /** Runs a command on the data folder. */
  run(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ended>;
  /** Runs a command with `--json` and returns its parsed output; throws if the command fails. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read documents of every shape.
  json(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<any>;
  /** Issues a research key for a new account. */
  issue(...more: string[]): Promise<Issued>;
  post(path: string, body: object, headers?: Record<string, string>): Promise<JsonResponse>;
  get(path: string, headers?: Record<string, string>): Promise<JsonResponse>;
  validate(key: Issued): Promise<JsonResponse>;
  /** Validates until the answer has this status and these fields; throws after a second. */
  expectWithinASecond(key: Issued, expected: object): Promise<void>;
  remove(): Promise<void>;
}

export interface Issued {
  readonly id: string;
  readonly api_key: string;
  readonly user_id: string;
  readonly email: string;
}

const LIMITS = Object.fromEntries(
  ["VALIDATE", "REFRESH", "REVOKE", "REPO_TOKEN", "MODELS", "ANALYTICS", "DOWNLOADS"].map((name) => [
    `CLAVIGER_LIMIT_${name}`,
    "10000000",
  ]),
);

export function install(): Installed {
  const place = createPlace();
  const dataDir = join(place.folder, "data");
  let service: RunningProcess | undefined;
  let people = 0;
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
  const send = async (path: string, init: RequestInit): Promise<JsonResponse> => {
    const response = await fetch(running().url + path, init);
    const text = await response.text();
    const body = text === "" ? undefined : JSON.parse(text);
    return { status: response.status, headers: response.headers, body };
  };
  const post: Installed["post"] = (path, body, headers = {}) =>
    send(path, { method: "POST", headers, body: JSON.stringify(body) });
  const validate = (key: Issued) => post("/v1/auth/validate", { api_key: key.api_key });

  return {
    place,
    dataDir,
    get service() {
      return running();
    },
    async start({ args = [], env = {} } = {}) {
      service = await place.serve(dataDir, { args, env: { ...LIMITS, ...env } });
      return service;
    },
    run,
    json,
    issue: (...more) =>
      json(["keys", "issue", "--email", `person-${++people}@example.org`, "--tier", "research", ...more]),
    post,
    get: (path, headers = {}) => send(path, { headers }),
    validate,
    async expectWithinASecond(key, expected) {
      const beganMs = performance.now();
      for (;;) {
        const askedMs = performance.now();
        const { status, body } = await validate(key);
        const isThere = Bun.deepMatch(expected, { status, ...body });
        if (isThere) return;
        if (askedMs - beganMs > WITHIN_MS) expect({ status, ...body }).toMatchObject(expected);
        await Bun.sleep(10);
      }
    },
    remove: () => place.remove(),
  };
}
