/** What a binary needs of its host. The result is compared with `readelf` where the host has it. */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { findPostgres } from "../../src/base/platform/bun/pack_postgres.ts";
import { glibcOfPostgres } from "../../src/build/compile.ts";
import { glibcNeededBy, readElfNeeds } from "../../src/build/elf.ts";

const machine = process.arch === "arm64" ? "arm64" : "x64";
const folder = findPostgres()?.folder ?? "";

describe.skipIf(folder === "")("readElfNeeds()", () => {
  const files = readdirSync(folder === "" ? "." : folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));

  test.skipIf(Bun.which("readelf") === null)(
    "finds the same glibc version and libraries as readelf, for every program and library of PostgreSQL",
    () => {
      const binaries = files.filter((path) => /\/bin\/|\.so/.test(path));
      expect(binaries.length).toBeGreaterThan(3);
      for (const path of [...binaries, process.execPath]) {
        const read = (flag: string) => Bun.spawnSync(["readelf", flag, path]).stdout.toString();
        const versions = [...read("--version-info").matchAll(/GLIBC_(\d[\d.]*)/g)].map(
          ([, version = ""]) => version,
        );
        const [newest] = versions.toSorted((a, b) => b.localeCompare(a, "en", { numeric: true }));
        const needed = [...read("--dynamic").matchAll(/\(NEEDED\).*\[(.*)\]/g)];
        const libraries = needed.map(([, name = ""]) => name);
        expect([path, readElfNeeds(new Uint8Array(readFileSync(path)))]).toEqual([
          path,
          { machine, glibc: newest, libraries },
        ]);
      }
    },
    120_000,
  );

  test("finds that the embedded PostgreSQL needs glibc 2.27", () => {
    expect(glibcOfPostgres(folder, machine)).toBe("2.27");
  });

  test("refuses a binary for another machine, and skips a file that is no ELF binary", () => {
    const other = machine === "x64" ? "arm64" : "x64";
    const path = files.find((one) => one.endsWith("/bin/postgres")) ?? "";
    expect(() => glibcNeededBy([path], other)).toThrow(`is for ${machine}, not for ${other}`);
    expect(glibcNeededBy([import.meta.path], machine)).toBeUndefined();
    expect(readElfNeeds(new Uint8Array(3))).toBeUndefined();
  });
});
