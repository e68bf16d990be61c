/** Packs texts into a .tar.gz with tar, as packages for npm and Python have it. The same texts give the same bytes. */
import { chmodSync, mkdtempDisposableSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { runTool } from "./run_tool.ts";

interface TarballOptions {
  /** The time of every file, in seconds since 1970. */
  readonly createdAtSeconds: number;
  /** The path of the one file that may be run as a program. */
  readonly program?: string;
}

/** Writes the texts, which are named by their paths in the archive, to `outfile`, in the order of their names. */
export async function writeTarball(
  outfile: string,
  texts: Readonly<Record<string, string>>,
  { createdAtSeconds, program }: TarballOptions,
): Promise<void> {
  using work = mkdtempDisposableSync(join(tmpdir(), "claviger-tarball-"));
  const names = Object.keys(texts).sort();
  for (const name of names) {
    await Bun.write(join(work.path, "content", name), texts[name] ?? "");
    chmodSync(join(work.path, "content", name), name === program ? 0o755 : 0o644);
  }
  const archive = join(work.path, "archive.tar");
  // Only files are listed, so that no mode of a folder, which depends on the umask, is packed.
  const fixed = [
    "--format=ustar",
    `--mtime=@${createdAtSeconds}`,
    "--owner=0",
    "--group=0",
    "--numeric-owner",
  ];
  runTool(["tar", "--create", `--file=${archive}`, ...fixed, ...names], join(work.path, "content"));
  writeFileSync(outfile, gzipSync(readFileSync(archive), { level: 9 }));
}
