/** New files of commands: complete or not there, and never in the place of another file. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { demandNewFile, writeNewFile } from "../../src/cli/write_new_file.ts";
import { useFolder } from "../support/use_folder.ts";

const folder = useFolder();

async function* textOf(...parts: readonly string[]) {
  for (const part of parts) yield Buffer.from(part);
}

/** What a file system without links answers. */
const noLinks = { makeLink: () => Promise.reject(Object.assign(new Error("no links"), { code: "EPERM" })) };

for (const [name, options] of [
  ["with links", {}],
  ["without links", noLinks],
] as const)
  describe(`writeNewFile() on a file system ${name}`, () => {
    const make = (of: string) => {
      const place = join(folder, `${name} ${of}`);
      mkdirSync(place);
      return { place, path: join(place, "new") };
    };

    test("writes the whole file for its owner alone, and leaves no other", async () => {
      const { place, path } = make("whole");
      await writeNewFile(path, textOf("one ", "two"), options);
      expect([readFileSync(path, "utf8"), statSync(path).mode & 0o777]).toEqual(["one two", 0o600]);
      expect(readdirSync(place)).toEqual(["new"]);
    });

    test("leaves what has got the name meanwhile: a file, a folder, a link that leads nowhere", async () => {
      const { place, path } = make("taken");
      const appear = [
        (at: string) => writeFileSync(at, "old"),
        (at: string) => mkdirSync(at),
        (at: string) => symlinkSync(join(place, "nowhere"), at),
      ];
      for (const [index, take] of appear.entries()) {
        const at = `${path}${index}`;
        async function* chunks() {
          yield Buffer.from("new");
          take(at);
        }
        await expect(writeNewFile(at, chunks(), options)).rejects.toMatchObject({ code: "EEXIST" });
      }
      expect(readdirSync(place).sort()).toEqual(["new0", "new1", "new2"]);
      expect(readFileSync(`${path}0`, "utf8")).toBe("old");
    });

    test("leaves nothing if the content fails", async () => {
      const { place, path } = make("failing");
      async function* chunks() {
        yield Buffer.from("half");
        throw new Error("no more");
      }
      await expect(writeNewFile(path, chunks(), options)).rejects.toThrow("no more");
      expect(readdirSync(place)).toEqual([]);
    });
  });

test("demandNewFile() refuses what exists, a link that leads nowhere, and a folder that is none", () => {
  const file = join(folder, "file");
  writeFileSync(file, "");
  const dangling = join(folder, "dangling");
  symlinkSync(join(folder, "nowhere"), dangling);
  const demand = (path: string) => () => demandNewFile(path, { what: "make bundle", shown: "shown" });
  const taken = "Cannot make bundle: shown exists already; move it, or choose another name";
  expect(demand(file)).toThrow(taken);
  expect(demand(dangling)).toThrow(taken);
  expect(demand(folder)).toThrow(taken);
  expect(demand(join(file, "new"))).toThrow(`Cannot write into ${file}: there is no such folder`);
  expect(demand(join(folder, "none", "new"))).toThrow("there is no such folder");
  expect(demand(join(folder, "new"))).not.toThrow();
});
