/**
 * Finds the Chromium that tests of the console start. On Linux x86-64 it is a headless Chromium from the package
 * registry, unpacked into `.cache`, so that every machine tests with the same browser and the same font. Elsewhere, or
 * with `CHROMIUM=path`, it is a Chromium of the system. Run as a program, this file fetches it.
 */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { open, realpath } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { fetchPackage } from "../../../src/build/packages.ts";

export interface Chromium {
  /** The program itself: a script that starts it would end before it. */
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
}

export const CHROMIUM = { name: "@sparticuz/chromium", version: "153.0.0" };
const SYSTEM_NAMES = ["chromium-headless-shell", "chromium"];
const REMEDY =
  "Install Chromium (on Debian the package chromium-headless-shell), then run make test-console CHROMIUM=path";

/**
 * The package has a font, because pages without any font show no text: its width is 0. The path of the cache is absolute,
 * because a relative one is looked for in the current folder.
 */
const fontsOf = (folder: string) => `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <cachedir>${join(folder, "fonts-cache")}</cachedir>
</fontconfig>
`;

export interface FindOptions {
  /** The environment, with CHROMIUM, FONTCONFIG_FILE and PATH. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly platform?: string;
  /** The folder that keeps the fetched files; by default `.cache` of the checkout. */
  readonly cache?: string;
}

/** Returns the Chromium to start; fetches it if that is needed. Throws with a remedy if there is none. */
export async function findChromium(options: FindOptions = {}): Promise<Chromium> {
  const { env = process.env, platform = `${process.platform}-${process.arch}` } = options;
  if (env.CHROMIUM) return { path: await programOf(env.CHROMIUM), env: {} };
  if (platform === "linux-x64") {
    const folder = await fetchChromium(options.cache).catch((error: Error) => {
      throw new Error(`${error.message}\n${REMEDY}`, { cause: error });
    });
    // FONTCONFIG_FILE=/etc/fonts/fonts.conf shows pages in the system's fonts.
    const fonts = env.FONTCONFIG_FILE ?? join(folder, "fonts.conf");
    return {
      path: join(folder, "chromium"),
      env: { LD_LIBRARY_PATH: join(folder, "lib"), FONTCONFIG_FILE: fonts },
    };
  }
  const found = SYSTEM_NAMES.map((name) => Bun.which(name, { PATH: env.PATH ?? "" })).find((path) => path);
  if (found) return { path: await programOf(found), env: {} };
  throw new Error(`Cannot test the console: there is no Chromium for ${platform}. ${REMEDY}`);
}

async function fetchChromium(cache = join(import.meta.dir, "../../../.cache")): Promise<string> {
  const folder = join(cache, `chromium-${CHROMIUM.version}`);
  if (existsSync(folder)) return folder;
  mkdirSync(cache, { recursive: true });
  const workFolder = mkdtempSync(join(cache, "fetch-"));
  try {
    console.log(`Fetching Chromium (${CHROMIUM.name} ${CHROMIUM.version}, 70 MB) into .cache`);
    const fetched = await fetchPackage(CHROMIUM, { cache: workFolder });
    const unpacked = join(workFolder, "unpacked");
    const unpack = (name: string) => brotliDecompressSync(readFileSync(join(fetched, "bin", name)));
    for (const name of ["al2023.tar.br", "fonts.tar.br"]) {
      await new Bun.Archive(unpack(name)).extract(unpacked);
    }
    await Bun.write(join(unpacked, "fonts.conf"), fontsOf(folder));
    await Bun.write(join(unpacked, "chromium"), unpack("chromium.br"));
    chmodSync(join(unpacked, "chromium"), 0o755);
    renameSync(unpacked, folder);
    return folder;
  } finally {
    rmSync(workFolder, { recursive: true, force: true });
  }
}

/** Returns the program that a path names. Debian's `/usr/bin/chromium` is a script for `/usr/lib/chromium/chromium`. */
async function programOf(path: string): Promise<string> {
  const real = await realpath(path).catch(() => {
    throw new Error(`Cannot test the console: CHROMIUM names ${path}, which does not exist. ${REMEDY}`);
  });
  if (!(await isScript(real))) return real;
  const program = join(dirname(real), "../lib/chromium", basename(real));
  if (existsSync(program)) return program;
  throw new Error(
    `Cannot test the console: ${path} is a script. Set CHROMIUM to the path of the program that it starts`,
  );
}

async function isScript(path: string): Promise<boolean> {
  await using file = await open(path);
  const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0);
  return buffer.toString() === "#!";
}

if (import.meta.main) {
  try {
    await findChromium();
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exit(1);
  }
}
