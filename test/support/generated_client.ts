/**
 * Generates the types of a client from an OpenAPI document, with `openapi-typescript`, and compiles a client's lines
 * with TypeScript's strictest options.
 */
import { mock } from "bun:test";
import { mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import typescript from "typescript-5";

const TSC = join(import.meta.dir, "../../node_modules/.bin/tsc");

export interface GeneratedClient {
  /** Contains `api.ts`, the generated types, and `client.ts`, the lines that were compiled last. */
  readonly folder: string;
  /** Compiles lines together with the types and returns the compiler's output, which is empty if they compile. */
  compile(lines: string): Promise<string>;
  close(): Promise<void>;
}

/** Generates the types from the text of a document. */
export async function generateClient(document: string): Promise<GeneratedClient> {
  const folder = mkdtempSync(join(tmpdir(), "claviger-client-"));
  // The generator needs TypeScript 5's functions; the newer compiler that checks this tree has none.
  mock.module("typescript", () => ({ default: typescript }));
  const { default: generate, astToString } = await import("openapi-typescript");
  await Bun.write(join(folder, "api.ts"), astToString(await generate(document)));
  const compilerOptions = {
    noEmit: true,
    allowImportingTsExtensions: true,
    module: "ESNext",
    moduleResolution: "bundler",
    target: "ESNext",
    types: [],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
  };
  await Bun.write(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions }));
  return {
    folder,
    async compile(lines) {
      await Bun.write(join(folder, "client.ts"), lines);
      const child = Bun.spawn([process.execPath, "--bun", TSC, "--project", "."], {
        cwd: folder,
        stdio: ["ignore", "pipe", "inherit"],
      });
      return await child.stdout.text();
    },
    close: () => rm(folder, { recursive: true }),
  };
}
