/** The command that adds a model, to copy: the file is on the host, so the console does not add models itself. */
import type { Brand } from "../../brand.ts";
import type { RegisteredModel } from "../../models/mod.ts";

/** The place of the file in the command. */
export const FILE = "./model.bin";

/** Returns the command that adds a new model; its values are examples. */
export function addCommand({ modelTypes: [type = ""] }: Brand): string {
  return render({
    name: "motor-imagery-4class",
    version: "1.0.0",
    type,
    paradigm: "motor_imagery",
    "n-features": 44,
    "n-classes": 4,
    "requires-license": "research",
  });
}

/** Returns the command that adds another version of a model, with the values of the version that is shown. */
export function addVersionCommand({ name, owner, shown }: RegisteredModel): string {
  return render({
    name,
    version: "NEW-VERSION",
    type: shown.type,
    paradigm: shown.paradigm,
    "n-features": shown.nFeatures,
    "n-classes": shown.nClasses,
    "requires-license": shown.requiresLicense,
    ...(owner && { owner: owner.id }),
  });
}

function render(options: Readonly<Record<string, string | number>>): string {
  const given = Object.entries({ ...options, file: FILE }).map(
    ([name, value]) => `  --${name} ${quote(value)}`,
  );
  return ["claviger models add", ...given].join(" \\\n");
}

/** Quotes a value for a shell if it needs that. */
function quote(value: string | number): string {
  const text = String(value);
  return /^[\w./+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
