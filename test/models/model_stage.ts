/** A running service with a public address, and the steps that the tests of `claviger models` share. */
import { hash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCommandLine, type Ended, type RunningService, type RunOptions } from "../cli/command_line.ts";
import { testBytes } from "../support/hosted.ts";

/** The environment of the service and of the commands. */
export const PUBLIC = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org/" };
export const BYTES = testBytes(2_345_678);
export const SHA256 = hash("sha256", BYTES);

export interface ModelStage {
  readonly service: RunningService;
  /** A key of the tier `research`. */
  readonly apiKey: string;
}

type Fields = Readonly<Record<string, string>>;

const FIELDS: Fields = {
  type: "SvcLDA",
  "n-features": "44",
  "n-classes": "4",
  "requires-license": "free",
  paradigm: "p300",
  version: "1.0.0",
};

export function createModelStage() {
  const line = createCommandLine({ prepared: true });
  const file = join(line.folder, "p300.onnx");
  let stage: ModelStage | undefined;

  const addArgs = (fields: Fields): string[] => [
    "models",
    "add",
    ...Object.entries({ ...FIELDS, ...fields }).flatMap(([name, value]) => [`--${name}`, value]),
  ];

  return {
    line,
    /** The path of a file with the content {@linkcode BYTES}. */
    file,
    addArgs,
    async start(): Promise<ModelStage> {
      writeFileSync(file, BYTES);
      const service = await line.serve([], { env: PUBLIC });
      const issued = await line.json(["keys", "issue", "--email", "ada@example.org", "--tier", "research"]);
      stage = { service, apiKey: issued.api_key };
      return stage;
    },
    async stop(): Promise<void> {
      await stage?.service.stop();
      line.remove();
    },
    add: (fields: Fields, options: RunOptions = {}): Promise<Ended> =>
      line.here(addArgs(fields), { env: PUBLIC, ...options }),
    storedPath: (sha256: string) => join(line.dataDir, "models", sha256.slice(0, 2), sha256),
    /** Returns the model as a client's list shows it. */
    async listed(name: string) {
      const response = await fetch(`${stage?.service.url}/v1/models/list`, {
        headers: { "X-API-Key": stage?.apiKey ?? "" },
      });
      const { models } = (await response.json()) as { models: { name: string; [field: string]: unknown }[] };
      return models.find((model) => model.name === name);
    },
  };
}
