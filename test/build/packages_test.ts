/** A build uses a package that it fetched itself (without `bun install`) only if the recorded digest matches. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { fetchPackage, integrityOf } from "../../src/build/packages.ts";
import { POSTGRES_COMPILER } from "../../src/build/postgres_compiler.ts";
import { CHROMIUM } from "../console/support/chromium.ts";
import { useFolder } from "../support/use_folder.ts";

setDefaultTimeout(60_000);

const checkout = join(import.meta.dir, "../..");
const version = packageJson.engines.bun;
const NAME = "@oven/bun-linux-x64";

const folder = useFolder();
let registry: ReturnType<typeof Bun.serve>;
/** The digest of the package that the fake registry sends. */
let sent: string;
const kept = process.env.NPM_CONFIG_REGISTRY;

/** The package is complete: the fake registry states its correct digest, and its program prints the right version. */
const manifest = (name: string) => JSON.stringify({ name, version, bin: { bun: "bin/bun" } });
/** Each tarball is made once, because a tar contains its time and so a second one would have another digest. */
const tarballs = new Map<string, Uint8Array<ArrayBuffer>>();
async function tarball(name: string): Promise<Uint8Array<ArrayBuffer>> {
  const files = { "package/package.json": manifest(name), "package/bin/bun": `#!/bin/sh\necho ${version}\n` };
  const made = tarballs.get(name) ?? Bun.gzipSync(await new Bun.Archive(files).bytes());
  tarballs.set(name, made);
  return made;
}
const digest = (bytes: Uint8Array) => `sha512-${createHash("sha512").update(bytes).digest("base64")}`;

beforeAll(async () => {
  sent = digest(await tarball(NAME));
  registry = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const path = decodeURIComponent(new URL(request.url).pathname);
      const [, name = ""] = /^\/(@[^/]+\/[^/]+)/.exec(path) ?? [];
      const bytes = await tarball(name);
      if (path.endsWith(".tgz")) return new Response(bytes);
      const dist = { tarball: `${registry.url.origin}/${name}/-/it.tgz`, integrity: digest(bytes) };
      const versions = { [version]: { ...JSON.parse(manifest(name)), dist } };
      return Response.json({ name, "dist-tags": { latest: version }, versions });
    },
  });
  process.env.NPM_CONFIG_REGISTRY = registry.url.href;
});
afterAll(async () => {
  if (kept === undefined) delete process.env.NPM_CONFIG_REGISTRY;
  else process.env.NPM_CONFIG_REGISTRY = kept;
  await registry.stop(true);
});

test("integrity.txt has a digest for Chromium, for the compiler, and for the pinned Bun on each platform of a build", () => {
  const lines = readFileSync(join(checkout, "src/build/integrity.txt"), "utf8").trim().split("\n");
  const entries = lines.filter((line) => !line.startsWith("#"));
  const platforms = [
    ...["linux-x64", "linux-x64-baseline", "linux-x64-musl", "linux-x64-musl-baseline"],
    ...["linux-aarch64", "linux-aarch64-musl", "darwin-x64", "darwin-x64-baseline", "darwin-aarch64"],
  ];
  const { program, library } = POSTGRES_COMPILER;
  expect(entries.map((line) => line.split(" ")[0])).toEqual([
    ...platforms.map((platform) => `@oven/bun-${platform}@${version}`),
    `${CHROMIUM.name}@${CHROMIUM.version}`,
    ...[program, library].map((name) => `${name}@${POSTGRES_COMPILER.version}`),
  ]);
  for (const line of entries) expect(line).toMatch(/ sha512-[A-Za-z0-9+/]{86}==$/);
  expect(new Set(entries.map((line) => line.split(" ")[1])).size).toBe(entries.length);
});

test("integrityOf() finds the digests of packages for other machines in bun.lock", () => {
  for (const [name, wanted] of Object.entries(packageJson.optionalDependencies)) {
    expect(integrityOf({ name, version: wanted })).toMatch(/^sha512-[A-Za-z0-9+/]{86}==$/);
  }
  expect(() => integrityOf({ name: "@oven/bun-linux-x64", version: "0.0.1" })).toThrow("has its digest");
});

describe("fetchPackage()", () => {
  test("accepts a package with the recorded digest", async () => {
    const path = await fetchPackage(
      { name: NAME, version },
      { cache: join(folder, "right"), integrity: sent },
    );
    expect(readFileSync(join(path, "bin/bun"), "utf8")).toContain(version);
  });

  test("refuses a package with other bytes, and keeps nothing of it", async () => {
    const cache = join(folder, "wrong");
    await expect(fetchPackage({ name: NAME, version }, { cache })).rejects.toThrow(
      `Cannot fetch ${NAME}@${version}: the registry sent bytes that do not have the digest`,
    );
    expect(readdirSync(cache)).toEqual([]);
  });
});

describe("make, when it fetches Bun,", () => {
  const TOOLS = "sh awk cat chmod cp dirname grep ldd make mkdir mktemp mv node rm sed uname find";

  /** Runs the make target in its own folder, with only these registry clients on the PATH. */
  async function fetchBun(clients: Readonly<Record<string, string>>, digests: "real" | "sent" | "none") {
    const place = mkdtempSync(join(folder, "make-"));
    const bin = join(place, "bin");
    mkdirSync(bin);
    mkdirSync(join(place, "src/build"), { recursive: true });
    for (const tool of TOOLS.split(" ")) {
      const path = Bun.which(tool, { PATH: "/usr/bin:/bin:/usr/local/bin" });
      if (path !== null) symlinkSync(path, join(bin, tool));
    }
    for (const [name, path] of Object.entries(clients)) symlinkSync(path, join(bin, name));
    for (const file of ["Makefile", "package.json"]) copyFileSync(join(checkout, file), join(place, file));
    const list = readFileSync(join(checkout, "src/build/integrity.txt"), "utf8");
    const lines: string[] = [];
    for (const line of list.split("\n")) {
      const [, name = ""] = /^(@\S+)@/.exec(line) ?? [];
      if (digests === "real" || name === "") lines.push(line);
      else if (digests === "sent") lines.push(`${name}@${version} ${digest(await tarball(name))}`);
    }
    writeFileSync(join(place, "src/build/integrity.txt"), lines.join("\n"));
    const run = Bun.spawn(["make", `.cache/bun-${version}/bun`], {
      cwd: place,
      env: { PATH: bin, HOME: place, NPM_CONFIG_REGISTRY: registry.url.href },
      stdout: "pipe",
      stderr: "pipe",
    });
    const err = await new Response(run.stderr).text();
    return {
      status: await run.exited,
      err,
      kept: existsSync(join(place, ".cache")) ? readdirSync(join(place, ".cache")) : [],
    };
  }

  const npm = Bun.which("npm", { PATH: "/usr/bin:/bin:/usr/local/bin" });
  const clients: [name: string, path: string | null][] = [
    ["bun", process.execPath],
    ["npm", npm],
  ];
  for (const [name, path] of clients) {
    test.if(path !== null)(
      `accepts the package that ${name} fetched only if it has the recorded digest`,
      async () => {
        const client = { [name]: path ?? "" };
        const wrong = await fetchBun(client, "real");
        expect(wrong.err).toMatch(
          /Cannot fetch Bun [\d.]+: the registry sent another @oven\/bun-\S+ than src\/build\/integrity\.txt names; it was thrown away/,
        );
        expect(wrong).toMatchObject({ status: 2, kept: [] });
        expect(await fetchBun(client, "none")).toMatchObject({
          status: 2,
          kept: [],
          err: expect.stringContaining("src/build/integrity.txt has no digest of @oven/bun-"),
        });
        expect(await fetchBun(client, "sent")).toMatchObject({ status: 0, kept: [`bun-${version}`] });
      },
    );
  }
});
