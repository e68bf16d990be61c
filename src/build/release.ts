/**
 * Builds a release: `bun src/build/release.ts [--outdir dist/release] [--sign-key FILE]`.
 *
 * A release has an executable for each platform, each with the PostgreSQL that `postgres.ts` builds for it, a Debian
 * package and an image for each machine, the packages of the clients, the SBOM, the statements about published faults
 * (VEX), `SHA256SUMS` and `NOTICES.txt`. One machine builds all of them: the runtimes for other platforms come from the
 * package registry. The machine and the glibc that this prints are read from the headers of the finished executable.
 */
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import packageJson from "../../package.json" with { type: "json" };
import { BUILT_POSTGRES } from "../base/version.ts";
import { buildClientPackages } from "./client_packages.ts";
import { readCommit, readSourceDate } from "./commit.ts";
import { compileExecutable, preparePostgres } from "./compile.ts";
import { buildDebianPackage } from "./debian_package.ts";
import { type Architecture, listDebianPackages } from "./debian_packages.ts";
import { type Machine, readElfNeeds } from "./elf.ts";
import { renderNotices } from "./notices.ts";
import { fetchPackage } from "./packages.ts";
import { CHECKOUT } from "./parts.ts";
import { buildPostgres } from "./postgres.ts";
import { buildReleaseImage, IMAGE_TOOLS } from "./release_image.ts";
import { requireTools } from "./run_tool.ts";
import { type ReleaseFile, renderSbom } from "./sbom.ts";
import { writeSums } from "./sign.ts";
import { renderVex } from "./vex.ts";

interface Target {
  /** The end of the executable's name, and the target of Bun's compiler. */
  readonly name: string;
  readonly machine: Machine;
  /** The npm package of the Bun inside. */
  readonly runtime: string;
  /** The architecture whose package and image have this executable: the baseline one, for neither knows its host. */
  readonly architecture?: Architecture;
}

const TARGETS: readonly Target[] = [
  { name: "linux-x64", machine: "x64", runtime: "bun-linux-x64" },
  { name: "linux-x64-baseline", machine: "x64", runtime: "bun-linux-x64-baseline", architecture: "amd64" },
  { name: "linux-arm64", machine: "arm64", runtime: "bun-linux-aarch64", architecture: "arm64" },
];

const { values } = parseArgs({
  options: {
    outdir: { type: "string", default: join(CHECKOUT, "dist/release") },
    "sign-key": { type: "string" },
  },
});

try {
  await release(values.outdir);
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exit(1);
}

async function release(outdir: string): Promise<void> {
  requireTools([...IMAGE_TOOLS, ...(values["sign-key"] === undefined ? [] : ["ssh-keygen"])]);
  rmSync(outdir, { recursive: true, force: true });
  mkdirSync(outdir, { recursive: true });
  const { version } = packageJson;
  const about = { version, commit: readCommit(), createdAtSeconds: readSourceDate() };
  const clients = await buildClientPackages(about, outdir);
  const files: ReleaseFile[] = [];
  const notices = renderNotices();
  for (const target of TARGETS) {
    const file = await build(target, outdir);
    files.push(file);
    const { architecture } = target;
    if (architecture === undefined) continue;
    const inside = { ...about, executable: file.path, architecture, notices };
    files.push({ ...file, path: await buildDebianPackage(inside, outdir) });
    const image = await buildReleaseImage(inside, outdir);
    files.push({ ...file, path: image, debian: listDebianPackages(architecture) });
  }
  const texts = {
    "NOTICES.txt": notices,
    [`claviger-${version}.cdx.json`]: renderSbom({ ...about, files, clients }),
    [`claviger-${version}.openvex.json`]: renderVex(),
  };
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(outdir, name), text);
  const names = [...[...files, ...clients].map(({ path }) => basename(path)), ...Object.keys(texts)];
  const signer = writeSums(outdir, { files: names, key: values["sign-key"] });
  console.log(`${outdir}: SHA256SUMS, ${Object.keys(texts).join(", ")}`);
  console.log(
    signer === undefined
      ? 'The release is not signed: name a key of OpenSSH, as in make release ARGS="--sign-key FILE"'
      : `The release is signed. Give customers this line by another way, for their file allowed_signers:\n${signer}`,
  );
}

async function build({ name, machine, ...target }: Target, outdir: string): Promise<ReleaseFile> {
  const runtime = `@oven/${target.runtime}`;
  const bun = await fetchPackage({ name: runtime, version: packageJson.engines.bun });
  const folder = await buildPostgres(machine);
  const postgres = await preparePostgres({ folder, version: BUILT_POSTGRES, origin: "source" }, machine);
  const path = join(outdir, `claviger-${packageJson.version}-${name}`);
  const isBuilt = compileExecutable({
    outfile: path,
    entry: join(CHECKOUT, "src/main.ts"),
    ...postgres,
    runtime: { target: `bun-${name}`, path: join(bun, "bin/bun") },
  });
  if (!isBuilt) throw new Error(`Cannot build ${name}`);
  const found = readElfNeeds(new Uint8Array(readFileSync(path)));
  if (found?.machine !== machine) throw new Error(`Cannot build ${name}: it is not for ${machine}`);
  const megabytes = (statSync(path).size / 1e6).toFixed(1);
  console.log(
    `${path}: ${megabytes} MB, needs glibc ${found.glibc ?? "any"}, its PostgreSQL ${postgres.glibc ?? "any"}`,
  );
  return { path, runtime, postgres: { machine, folder } };
}
