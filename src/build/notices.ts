/** Renders the licences of everything in an executable as one text, which is distributed with it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { listPackages, type NpmPackage, POSTGRES, ZIG_RUNTIME } from "./parts.ts";

/**
 * Returns the notices as text. Throws if the licence of a package cannot be found: such a release must not be
 * published.
 */
export function renderNotices(): string {
  const inside = new Set(listPackages("bun").map(({ name }) => name));
  const parts = [
    { title: "Bun, the runtime", text: noticeOf("bun") },
    { title: "Libraries in Bun, by license", text: noticeOf("bun-libraries") },
    { title: "Crates of Rust in Bun", text: noticeOf("bun-crates") },
    { title: "WebKit in Bun, its holders", text: noticeOf("webkit") },
    { title: "ICU in Bun, with the data of others", text: noticeOf("bun-icu") },
    // Both licences demand that their text comes with the program.
    { title: "LGPL 2.1, of WebKit and tinycc in Bun", text: noticeOf("lgpl-2.1") },
    { title: "Apache 2.0, of other libraries in Bun", text: noticeOf("apache-2.0") },
    ...[POSTGRES, ZIG_RUNTIME].map(({ name, version }) => ({
      title: `${name} ${version}`,
      text: noticeOf(name),
    })),
    ...listPackages("node").map((each) => ({
      title: `${each.name} ${each.version}${inside.has(each.name) ? "" : ", in the bundle for Node alone"}`,
      text: licenceOf(each),
    })),
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
  if (/^[\w.-]+$/.test(name) && existsSync(noticePath(name))) return noticeOf(name);
  throw new Error(
    `Cannot write the notices: ${folder} has no licence file, and notices/ has none for ${name}`,
  );
}

function noticeOf(name: string): string {
  return readFileSync(noticePath(name), "utf8");
}

function noticePath(name: string): string {
  return join(import.meta.dir, "notices", `${name}.txt`);
}
