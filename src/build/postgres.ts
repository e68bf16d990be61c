/**
 * Builds the PostgreSQL inside from its source: `bun src/build/postgres.ts [x64] [arm64]`, by default for this machine. It
 * works on Linux on x86-64.
 *
 * The result is `.cache/postgres-<version>-linux-<machine>/`: in `packed` the programs and files that a cluster needs, in
 * `tools` the extension amcheck, which tests use, and pg_test_fsync, which people run by hand.
 *
 * The same bytes come out in any folder and at any time, because source and compiler are pinned by their digests, bison
 * and flex by their versions, and every path of the build is replaced. The compiler is Zig's `cc`, which is clang with the
 * headers and the symbol versions of each glibc: so one machine builds for both, and both run on every Linux since glibc
 * 2.27 of 2018.
 *
 * It needs `make`, `perl`, `bison`, `flex`, `tar` and `bzip2`, and no root.
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempDisposableSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { BUILT_RECIPE, builtPostgres } from "../base/platform/bun/pack_postgres.ts";
import { BUILT_POSTGRES } from "../base/version.ts";
import { sha256Of } from "./digest.ts";
import type { Machine } from "./elf.ts";
import { fetchPackage } from "./packages.ts";
import { CHECKOUT } from "./parts.ts";
import { POSTGRES_COMPILER } from "./postgres_compiler.ts";
import { fetchPostgresSource, POSTGRES_SOURCE } from "./postgres_source.ts";
import { requireTools, runTool } from "./run_tool.ts";

/** What makes C of the grammars. Another version makes other C. Debian has these since 12, Ubuntu since 22.04. */
const GENERATORS = { bison: "3.8.2", flex: "2.6.4" };

interface Target {
  /** The name of the machine in the compiler and in `configure`. */
  readonly name: string;
  /** The oldest processor of this machine. With the instructions for CRC, whose use PostgreSQL decides at run time. */
  readonly processor: string;
}

const TARGETS: Readonly<Record<Machine, Target>> = {
  x64: { name: "x86_64", processor: "x86_64+crc32" },
  arm64: { name: "aarch64", processor: "generic" },
};
const GLIBC = "2.27";

/**
 * Zig names processors in its own way, and knows no `-march=armv8-a+crc`, by which PostgreSQL compiles the one file that
 * uses the instruction. It refuses `-fPIE` for a shared library. `-ffile-prefix-map` is here and not in CFLAGS, because
 * PostgreSQL stores its CFLAGS.
 */
const COMPILER_SCRIPT = `#!/bin/sh
pie=-fPIE
for word do
  shift
  case $word in
    -march=armv8-a+crc*) word=-mcpu=generic+crc ;;
    -fPIC | -shared) pie= ;;
  esac
  set -- "$@" "$word"
done
exec zig cc -target "$TARGET" -mcpu="$PROCESSOR" $pie -ffile-prefix-map="$SOURCE"=. "$@"
`;

/** No ICU, readline, zlib, LZ4, Zstandard, OpenSSL, libxml2 or LLVM: a cluster of the service uses none of them. */
const CONFIGURE = [
  "--prefix=/usr/local",
  "--without-icu",
  "--without-readline",
  "--without-zlib",
  "--disable-rpath",
  "CC=target-cc",
  "AR=target-ar",
  "RANLIB=target-ranlib",
  "CFLAGS=-O2 -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fno-sanitize=undefined",
  // Without symbols for a debugger.
  "LDFLAGS=-s",
  "LDFLAGS_EX=-pie",
  // `configure` runs a program to learn these, and assumes a no where it builds for another machine.
  "pgac_cv_prog_cc_LDFLAGS__Wl___as_needed=yes",
  "pgac_cv_prog_cc_LDFLAGS_EX_BE__Wl___export_dynamic=yes",
];
/** What compiles the time zones, for the machine that builds. */
const ZIC = ["timezone/zic.c", "port/snprintf.c", "port/strerror.c", "port/strlcpy.c", "port/qsort.c"];
/** initdb finds libpq beside itself. Make turns `$$` into `$`. */
const FIND_LIBPQ = "LDFLAGS_EX=-pie -Wl,-rpath,'$$ORIGIN/../lib'";
const LIBPQ = "libpq.so.5";
/** Each part needs those before it. */
const PARTS = [
  ["src/backend", "generated-headers"],
  ["src/common"],
  ["src/port"],
  ["src/timezone"],
  ["src/backend"],
  ["src/backend/snowball"],
  ["src/pl/plpgsql/src"],
  ["src/interfaces/libpq"],
  ["src/fe_utils"],
  ["src/bin/initdb", FIND_LIBPQ],
] as const;
const INSTALLED = [
  ["src/include/catalog"],
  ["src/backend"],
  ["src/backend/snowball"],
  ["src/pl/plpgsql/src"],
  ["src/timezone"],
  ["src/bin/initdb", FIND_LIBPQ],
] as const;
const TOOLS = ["contrib/amcheck", "src/bin/pg_test_fsync"];

const UNFINISHED = join(CHECKOUT, ".cache/postgres-build-");
const ABANDONED_AFTER_MS = 3_600_000;

/** What the result depends on: this file says the rest. If one of these changes, what was built before is built again. */
const RECIPE = JSON.stringify([POSTGRES_SOURCE, POSTGRES_COMPILER, sha256Of(import.meta.path)]);

/** Returns the folder of the PostgreSQL for a machine; builds it first if it is not there, which takes minutes. */
export async function buildPostgres(machine: Machine): Promise<string> {
  const folder = builtPostgres(machine);
  const recipe = join(folder, BUILT_RECIPE);
  if (existsSync(recipe) && readFileSync(recipe, "utf8") === RECIPE) return folder;
  if (process.platform !== "linux" || process.arch !== "x64") {
    throw new Error(
      `Cannot build PostgreSQL: its compiler is for Linux on x86-64; build it there with make postgres, and copy ${folder} here`,
    );
  }
  requireTools(["make", "perl", "bison", "flex", "tar", "bzip2"]);
  demandGenerators();
  // Debian's package perl-base has the program without it.
  if (Bun.spawnSync(["perl", "-MFindBin", "-e1"]).exitCode !== 0) {
    throw new Error("Cannot build PostgreSQL: perl has no FindBin; on Debian run: apt-get install perl");
  }
  const { program, library, version } = POSTGRES_COMPILER;
  const source = await fetchPostgresSource();
  const zig = await fetchPackage({ name: program, version });
  const zigLibrary = await fetchPackage({ name: library, version });
  removeAbandoned();
  using work = mkdtempDisposableSync(UNFINISHED);
  console.log(`Building PostgreSQL ${BUILT_POSTGRES} for ${machine}, which takes some minutes`);
  const built = compile({ machine, source, zig: join(zig, "bin"), zigLibrary, work: work.path });
  writeFileSync(join(built, BUILT_RECIPE), RECIPE);
  rmSync(folder, { recursive: true, force: true });
  renameSync(built, folder);
  console.log(folder);
  return folder;
}

/** Removes what builds left that were killed. Another build may run now, in a folder that is not so old. */
function removeAbandoned(): void {
  for (const name of readdirSync(dirname(UNFINISHED))) {
    const path = join(dirname(UNFINISHED), name);
    const beganMs = statSync(path, { throwIfNoEntry: false })?.ctimeMs ?? Date.now();
    if (!path.startsWith(UNFINISHED) || Date.now() - beganMs < ABANDONED_AFTER_MS) continue;
    rmSync(path, { recursive: true, force: true });
  }
}

function demandGenerators(): void {
  for (const [tool, wanted] of Object.entries(GENERATORS)) {
    const [, found] = / (\d+\.\d[\d.]*)\s/.exec(runTool([tool, "--version"], CHECKOUT)) ?? [];
    if (found !== wanted)
      throw new Error(`Cannot build PostgreSQL: it needs ${tool} ${wanted}, not ${found}`);
  }
}

interface CompileOptions {
  readonly machine: Machine;
  /** The archive of the source. */
  readonly source: string;
  /** The folders of the compiler's program and library. */
  readonly zig: string;
  readonly zigLibrary: string;
  /** An empty folder. */
  readonly work: string;
}

/** Compiles in the folder `work`, and returns the folder of the result in it. */
function compile({ machine, source, zig, zigLibrary, work }: CompileOptions): string {
  const [sourceDir, tools, result] = [join(work, "source"), join(work, "bin"), join(work, "result")];
  for (const folder of [sourceDir, tools, result]) mkdirSync(folder);
  const scripts = {
    "target-cc": COMPILER_SCRIPT,
    "target-ar": '#!/bin/sh\nexec zig ar "$@"\n',
    "target-ranlib": '#!/bin/sh\nexec zig ranlib "$@"\n',
    // `configure` wants to find it; it is compiled afterwards, because it needs what `configure` writes.
    zic: "",
  };
  for (const [name, text] of Object.entries(scripts)) {
    writeFileSync(join(tools, name), text);
    chmodSync(join(tools, name), 0o755);
  }
  const { name, processor } = TARGETS[machine];
  const environment = {
    // Only these, so that no setting of the user changes the result.
    PATH: `${tools}:${zig}:${process.env.PATH}`,
    HOME: work,
    LC_ALL: "C",
    TZ: "UTC",
    SOURCE_DATE_EPOCH: "0",
    ZIG_LIB_DIR: zigLibrary,
    ZIG_GLOBAL_CACHE_DIR: join(work, "compiler-cache"),
    ZIG_LOCAL_CACHE_DIR: join(work, "compiler-cache"),
    SOURCE: sourceDir,
    TARGET: `${name}-linux-gnu.${GLIBC}`,
    PROCESSOR: processor,
  };
  const inSource = (...command: [string, ...string[]]) => runIn(sourceDir, command, environment);
  const make = (folder: string, ...words: string[]) =>
    inSource("make", `-j${availableParallelism()}`, "--silent", "-C", folder, ...words);

  inSource("tar", "--extract", "--bzip2", "--strip-components=1", "--file", source);
  // Always as for another machine, so that no program of the result has to run here.
  inSource("./configure", "--build=x86_64-pc-linux-gnu", `--host=${name}-linux-gnu`, ...CONFIGURE);
  const zicSources = ZIC.map((path) => `src/${path}`);
  inSource(
    "zig",
    "cc",
    "-w",
    "-fno-sanitize=undefined",
    "-DFRONTEND",
    "-D_GNU_SOURCE",
    "-Isrc/include",
    "-o",
    join(tools, "zic"),
    ...zicSources,
  );
  for (const [folder, ...words] of PARTS) make(folder, ...words);
  for (const [folder, ...words] of INSTALLED) make(folder, ...words, "install", `DESTDIR=${work}/packed`);
  // Its own target installs headers, too.
  copyFileSync(join(sourceDir, "src/interfaces/libpq", LIBPQ), join(work, "packed/usr/local/lib", LIBPQ));
  for (const folder of TOOLS) make(folder, "install", `DESTDIR=${work}/tools`);
  rmSync(join(work, "packed/usr/local/include"), { recursive: true });
  for (const part of ["packed", "tools"]) renameSync(join(work, part, "usr/local"), join(result, part));
  return result;
}

function runIn(folder: string, command: string[], env: Record<string, string>): void {
  const ended = Bun.spawnSync(command, { cwd: folder, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  if (ended.exitCode === 0) return;
  const lines = `${ended.stdout}\n${ended.stderr}`.trim().split("\n").slice(-40);
  throw new Error(`Cannot build PostgreSQL: ${command.join(" ")} failed:\n${lines.join("\n")}`);
}

if (import.meta.main) {
  try {
    const machines = process.argv.slice(2);
    for (const machine of machines.length > 0 ? machines : [process.arch]) {
      if (machine !== "x64" && machine !== "arm64") throw new Error(`Cannot build PostgreSQL for ${machine}`);
      await buildPostgres(machine);
    }
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    process.exit(1);
  }
}
