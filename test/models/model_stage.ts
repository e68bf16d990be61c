/** A running service with a public address, and the steps that the tests of `claviger models` share. */

import { beforeAll } from "bun:test";
import { hash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Ended, RunOptions } from "../cli/command_line.ts";
import { useServing } from "../cli/use_command_line.ts";
import { testBytes } from "../support/hosted.ts";

/** The environment of the service and of the commands. */
export const PUBLIC = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org/" };
export const BYTES = testBytes(2_345_678);
export const SHA256 = hash("sha256", BYTES);

type Fields = Readonly<Record<string, string>>;

const FIELDS: Fields = {
  type: "SvcLDA",
  "n-features": "44",
  "n-classes": "4",
  "requires-license": "free",
  paradigm: "p300",
  version: "1.0.0",
};

/** Returns the arguments of `models add`. */
export function addArgs(fields: Fields): string[] {
  const all = Object.entries({ ...FIELDS, ...fields });
  return ["models", "add", ...all.flatMap(([name, value]) => [`--${name}`, value])];
}

export function useModelStage() {
  const { line, service } = useServing([], { env: PUBLIC });
  const file = join(line.folder, "p300.onnx");
  writeFileSync(file, BYTES);
  let apiKey = "";
  beforeAll(async () => {
    const person = ["--email", "ada@example.org", "--tier", "research"];
    ({ api_key: apiKey } = await line.json(["keys", "issue", ...person]));
  });

  /** Sends a request with a key of the tier `research`. */
  const get = (path: string) => fetch(`${service.url}${path}`, { headers: { "X-API-Key": apiKey } });

  return {
    line,
    service,
    /** The path of a file with the content {@linkcode BYTES}. */
    file,
    addArgs,
    get,
    add: (fields: Fields, options: RunOptions = {}): Promise<Ended> =>
      line.here(addArgs(fields), { env: PUBLIC, ...options }),
    storedPath: (sha256: string) => join(line.dataDir, "models", sha256.slice(0, 2), sha256),
    /** Returns the model as a client's list shows it. */
    async listed(name: string) {
      const response = await get("/v1/models/list");
      const { models } = (await response.json()) as { models: { name: string; [field: string]: unknown }[] };
      return models.find((model) => model.name === name);
    },
  };
}
