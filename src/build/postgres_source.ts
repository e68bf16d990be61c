/** Where the source of the PostgreSQL inside comes from. Its digest decides, wherever it comes from. */
import { existsSync, mkdirSync, mkdtempDisposableSync, renameSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { BUILT_POSTGRES } from "../base/version.ts";
import { sha256Of } from "./digest.ts";
import { CHECKOUT } from "./parts.ts";
import { runTool } from "./run_tool.ts";

/**
 * The archive as the PostgreSQL project publishes it, which Debian keeps as the source of its package, byte for byte.
 * It was made from the commit 724edf9bde9d356724ad384a2e196edc3c9f80f7 (`git get-tar-commit-id` reads it).
 */
export const POSTGRES_SOURCE = {
  url: `https://ftp.postgresql.org/pub/source/v${BUILT_POSTGRES}/postgresql-${BUILT_POSTGRES}.tar.bz2`,
  sha256: "555610c24d53e4316da5b7d3fc25c279d96856d5e0e23ee308c328c5fa881d9f",
};
const NAME = basename(POSTGRES_SOURCE.url);
/** Where Debian keeps the newest release. The second suite gets it some days later. */
const DEBIAN = {
  package: `postgresql-${BUILT_POSTGRES.split(".")[0]}`,
  suites: ["unstable", "testing"],
  site: "http://deb.debian.org/debian/",
  keys: "/usr/share/keyrings/debian-archive-keyring.gpg",
};

/**
 * Returns the path of the archive: the file that `POSTGRES_SOURCE` names, the one in `.cache`, or else fetched into
 * `.cache` from upstream or from Debian's package sources. Throws if it is nowhere to be had, or is not the pinned one.
 */
export async function fetchPostgresSource(): Promise<string> {
  const given = process.env.POSTGRES_SOURCE;
  if (given !== undefined && given !== "") return demandDigest(resolve(given));
  const kept = join(CHECKOUT, ".cache", NAME);
  if (existsSync(kept)) return demandDigest(kept);
  mkdirSync(join(CHECKOUT, ".cache"), { recursive: true });
  using work = mkdtempDisposableSync(join(CHECKOUT, ".cache/postgres-source-"));
  const fetched = join(work.path, NAME);
  const reasons: string[] = [];
  for (const fetchFrom of [fetchFromUpstream, fetchFromDebian]) {
    try {
      await fetchFrom(fetched, work.path);
      renameSync(demandDigest(fetched), kept);
      return kept;
    } catch (error) {
      reasons.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new Error(
    `Cannot fetch ${NAME}:\n  ${reasons.join("\n  ")}\n` +
      "Get it by another way and name it: POSTGRES_SOURCE=FILE",
  );
}

function demandDigest(path: string): string {
  const found = sha256Of(path);
  if (found === POSTGRES_SOURCE.sha256) return path;
  throw new Error(`Cannot use ${path}: its SHA-256 is ${found}, not ${POSTGRES_SOURCE.sha256}`);
}

async function fetchFromUpstream(path: string): Promise<void> {
  const answer = await fetch(POSTGRES_SOURCE.url, { signal: AbortSignal.timeout(120_000) });
  if (!answer.ok) throw new Error(`${POSTGRES_SOURCE.url}: the answer is ${answer.status}`);
  writeFileSync(path, await answer.bytes());
}

/** Uses the host's mirror of Debian, and lists of packages of its own, so that no root is needed. */
function fetchFromDebian(path: string, work: string): void {
  // A host without lists of packages, such as a container, does not know which of its sources are Debian's.
  const sites = runTool(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian"], work).split(
    "\n",
  );
  const site = sites.find((uri) => /^https?:\/\/\S+$/.test(uri) && !uri.includes("security")) ?? DEBIAN.site;
  for (const folder of ["lists/partial", "cache/archives/partial"]) {
    mkdirSync(join(work, folder), { recursive: true });
  }
  const sources = DEBIAN.suites.map((suite) => `deb-src [signed-by=${DEBIAN.keys}] ${site} ${suite} main\n`);
  writeFileSync(join(work, "sources.list"), sources.join(""));
  const options = [
    "APT::Sandbox::User=",
    "Acquire::Languages=none",
    // A frozen mirror has lists that have expired. The digest decides, not their age.
    "Acquire::Check-Valid-Until=false",
    `Dir::Cache=${work}/cache`,
    `Dir::Etc::SourceList=${work}/sources.list`,
    "Dir::Etc::SourceParts=/dev/null",
    `Dir::State::Lists=${work}/lists`,
  ].flatMap((option) => ["-o", option]);
  runTool(["apt-get", ...options, "-qq", "update"], work);
  // A version such as `18.6-3`, whose last part counts Debian's packages of one source.
  const listed = runTool(["apt-cache", ...options, "showsrc", "--only-source", DEBIAN.package], work);
  const versions = [...listed.matchAll(/^Version: (\S+)$/gm)].map(([, version = ""]) => version);
  const version = versions.find((one) => one.startsWith(`${BUILT_POSTGRES}-`));
  if (version === undefined) {
    throw new Error(`apt-get: Debian has ${versions.join(", ") || "no version"} of ${DEBIAN.package}`);
  }
  const wanted = `${DEBIAN.package}=${version}`;
  runTool(["apt-get", ...options, "-qq", "source", "--download-only", "--tar-only", wanted], work);
  renameSync(join(work, `${DEBIAN.package}_${BUILT_POSTGRES}.orig.tar.bz2`), path);
}
