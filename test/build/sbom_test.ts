import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Ajv from "ajv";
import { builtPostgres, packPostgres } from "../../src/base/platform/bun/pack_postgres.ts";
import { listDebianPackages } from "../../src/build/debian_packages.ts";
import { readElfNeeds } from "../../src/build/elf.ts";
import { BUN_CRATES, CHECKOUT, listPackages, POSTGRES } from "../../src/build/parts.ts";
import { POSTGRES_SOURCE } from "../../src/build/postgres_source.ts";
import { type ReleaseFile, renderSbom } from "../../src/build/sbom.ts";
import { useFolder } from "../support/use_folder.ts";

const platform = process.arch === "arm64" ? "arm64" : "x64";
const folder = builtPostgres(platform);
/** An SBOM describes a release, so these tests need its PostgreSQL. CI builds it first, and fails where it cannot. */
const isBuilt = existsSync(folder);
const release = useFolder();

const program: ReleaseFile = {
  path: join(release, "claviger-linux"),
  runtime: "@oven/bun-linux-x64",
  postgres: { machine: platform, folder },
};
const image = { ...program, path: join(release, "image.tar"), debian: listDebianPackages("amd64") };
const clients = [
  { path: join(release, "client.tgz"), needs: [] },
  { path: join(release, "client.whl"), needs: ["cryptography"] },
];
for (const { path } of [program, image, ...clients]) writeFileSync(path, path);

const POSTGRES_SOURCE_REFERENCE = {
  type: "source-distribution",
  url: POSTGRES_SOURCE.url,
  hashes: [{ alg: "SHA-256", content: POSTGRES_SOURCE.sha256 }],
};
/** The libraries of glibc. */
const GLIBC = /^(lib(c|m|dl|rt|pthread)|ld-linux-(x86-64|aarch64))\.so\.\d$/;

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

describe.skipIf(!isBuilt)("renderSbom()", () => {
  const text = () =>
    renderSbom({
      commit: "0123456789ab",
      createdAtSeconds: 1_800_000_000,
      files: [program, image],
      clients,
    });
  const bom: Bom = isBuilt ? JSON.parse(text()) : { components: [], dependencies: [] };

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
      purl.startsWith("pkg:npm/") && name !== "bun" ? [name] : [],
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
    expect([inside["file:client.tgz"], inside["file:client.whl"]]).toEqual([[], ["pkg:pypi/cryptography"]]);
    for (const ref of Object.values(inside).flat()) expect(refs).toContain(ref);
  });

  test("names every program and library in the archive of PostgreSQL, with its digest and source", async () => {
    const packed = await packedFiles();
    const binaries = [...packed].flatMap(([path, bytes]) =>
      readElfNeeds(bytes) === undefined ? [] : [path],
    );
    expect(POSTGRES.files).toEqual(binaries.sort());
    const postgres = bom.components.find(({ name }) => name === "postgresql");
    expect(postgres).toMatchObject({
      version: POSTGRES.version,
      externalReferences: [POSTGRES_SOURCE_REFERENCE],
    });
    const digestOf = (path: string) =>
      new Bun.CryptoHasher("sha256").update(packed.get(path) ?? "").digest("hex");
    const components: object[] = POSTGRES.files.map((name) => ({
      type: "file",
      name,
      hashes: [{ alg: "SHA-256", content: digestOf(name) }],
    }));
    expect<unknown>(postgres?.components).toEqual([
      ...components,
      expect.objectContaining({ name: "zig-runtime" }),
    ]);
  });

  test("leaves out no library: those of PostgreSQL need glibc alone, and hold no path of the build", async () => {
    for (const [path, bytes] of await packedFiles()) {
      const needed = readElfNeeds(bytes)?.libraries ?? [];
      const others = needed.filter((name) => !GLIBC.test(name) && !POSTGRES.files.includes(`lib/${name}`));
      expect([path, others]).toEqual([path, []]);
      expect([path, Buffer.from(bytes).includes("postgres-build-")]).toEqual([path, false]);
    }
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

test.skipIf(!isBuilt)("POSTGRES has the version that the server says", () => {
  const server = readFileSync(join(folder, "packed/bin/postgres"), "latin1");
  expect(/postgres \(PostgreSQL\) (\d+\.\d+)/.exec(server)?.[1]).toBe(POSTGRES.version);
});

async function packedFiles(): Promise<Map<string, Uint8Array>> {
  const archive = readFileSync((await packPostgres({ level: 3, from: folder, cacheDir: release })) ?? "");
  const files = await new Bun.Archive(Bun.zstdDecompressSync(archive)).files();
  return new Map(
    await Promise.all([...files].map(async ([path, file]) => [path, await file.bytes()] as const)),
  );
}

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
