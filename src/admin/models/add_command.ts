/** The commands that put a model into the registry, to copy. */
import type { Brand } from "../../licensing/mod.ts";

/** The place of the file in the commands. */
export const EXAMPLE_FILE = "./model.bin";

/** Returns the command that adds a new model; its values are examples. */
export function addCommand({ modelTypes: [type = ""] }: Brand): string {
  const options = {
    name: "motor-imagery-4class",
    version: "1.0.0",
    type,
    paradigm: "motor_imagery",
    "n-features": 44,
    "n-classes": 4,
    "requires-license": "research",
    file: EXAMPLE_FILE,
  };
  return [
    "claviger models add",
    ...Object.entries(options).map(([name, value]) => `  --${name} ${value}`),
  ].join(" \\\n");
}

/** Returns the command that uploads the file of a version; `path` is that of the model and version with `/file`. */
export function uploadCommand(origin: string, path: string): string {
  return `curl -T ${EXAMPLE_FILE} -H @token.header \\
  -H "X-Checksum-SHA256: $(sha256sum ${EXAMPLE_FILE} | cut -d' ' -f1)" \\
  ${origin}/admin/v1${path}`;
}
