import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { renderNotices } from "../../src/build/notices.ts";
import { BUN_CRATES, BUN_PARTS, listPackages } from "../../src/build/parts.ts";

/** The holder of ICU, and the data of others in it. */
const DATA_IN_ICU = [
  "Unicode, Inc.",
  "Chinese/Japanese Word Break Dictionary Data",
  "Lao Word Break Dictionary Data",
  "Burmese Word Break Dictionary Data",
  "Time Zone Database",
];

function readNotice(name: string): string {
  return readFileSync(join(import.meta.dir, `../../src/build/notices/${name}.txt`), "utf8");
}

test("renderNotices() contains the licence of every bundled component", () => {
  const notices = renderNotices();
  const parts = notices.split(/^=+\n(.*)\n=+\n/m);
  const texts = new Map(parts.flatMap((part, i) => (i % 2 === 1 ? [[part, parts[i + 1] ?? ""]] : [])));
  const inside = listPackages("bun").map(({ name }) => name);
  for (const [name, version] of Object.entries(packageJson.dependencies)) {
    const where = inside.includes(name) ? "" : ", in the bundle for Node alone";
    expect([name, texts.get(`${name} ${version}${where}`)]).toEqual([name, expect.stringMatching(/\S{3}/)]);
  }
  const words: [title: RegExp, licence: string][] = [
    [/^Bun/, "LGPL-2"],
    [/^Libraries in Bun/, "Redistributions in binary form must reproduce"],
    [/^LGPL 2\.1/, "GNU LESSER GENERAL PUBLIC LICENSE"],
    [/^Apache 2\.0/, "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION"],
    [/^postgresql \d/, "The Regents of the University of California"],
    [/^zig-runtime \d/, "Copyright (c) Zig contributors"],
    [/^Crates of Rust in Bun$/, "rust-argon2 "],
    [/^WebKit in Bun/, "Harri Porten"],
    ...DATA_IN_ICU.map((data): [RegExp, string] => [/^ICU in Bun/, data]),
    [/^postgres \d/, "free and unencumbered"],
    [/^hono \d/, "Permission is hereby granted"],
  ];
  for (const [title, licence] of words) {
    const text = [...texts].find(([name]) => title.test(name))?.[1];
    expect([title.source, text]).toEqual([title.source, expect.stringContaining(licence)]);
  }
});

test("the notices have a line of copyright for everything in Bun", () => {
  const [, carried = ""] = /and carries these packages, all MIT: ([^.]+)\./.exec(readNotice("bun")) ?? [];
  const names = [...BUN_PARTS.map(({ name }) => name), ...carried.split(/,\s+/)];
  // SQLite is in the public domain.
  const wanted = names.filter((name) => name !== "sqlite").map((name) => name.toLowerCase());
  const noticed = [...readNotice("bun-libraries").matchAll(/^(\S+?)(?:, in part)? {2,}\S/gm)].map(
    ([, name = ""]) => name.toLowerCase(),
  );
  expect(wanted.length).toBeGreaterThan(45);
  expect(wanted.filter((name) => !noticed.includes(name))).toEqual([]);
});

test("the notices have the crates of the Bun inside, each with its lines of copyright and a license of the notices", () => {
  const notice = readNotice("bun-crates");
  expect(notice).toContain(`Bun ${packageJson.engines.bun} `);
  expect(BUN_CRATES.length).toBeGreaterThan(60);
  const texts: Readonly<Record<string, string>> = {
    MIT: "The above copyright notice and this permission notice shall be included in all",
    "BSD-2-Clause": "\nBSD 2-Clause\n",
    "BSD-3-Clause": "\nBSD 3-Clause\n",
    Zlib: "\nzlib\n",
    "Apache-2.0": "Version 2.0, January 2004",
    "MPL-2.0": "https://mozilla.org/MPL/2.0/",
  };
  const all = ["bun-libraries", "bun-crates", "apache-2.0"].map(readNotice).join("\n");
  for (const { name, version, license } of BUN_CRATES) {
    expect(notice).toMatch(new RegExp(`^${name} ${version.replaceAll(".", "\\.")}  .*\n {4}\\S`, "m"));
    for (const needed of license.split(" AND ")) {
      const choices = needed.replace(/[()]/g, "").split(" OR ");
      const has = choices.some((choice) => all.includes(texts[choice] ?? `no text of ${choice}`));
      expect([name, needed, has]).toEqual([name, needed, true]);
    }
  }
});

test("the license of ICU in the notices is that of the ICU in Bun", () => {
  expect(readNotice("bun-icu")).toContain(`ICU ${process.versions.icu},`);
});

test("the notices name the holders of WebKit, each once", () => {
  const holders = [...readNotice("webkit").matchAll(/^Copyright .*$/gm)].map(([line]) => line);
  expect(holders.length).toBeGreaterThan(100);
  expect(holders).toEqual([...new Set(holders)]);
});
