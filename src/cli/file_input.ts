/** Files that come through standard input, because the user of the data folder may not read them. */

import { randomUUID } from "node:crypto";
import { closeSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { join } from "node:path";
import { reasonOf } from "../base/system_error.ts";
import { LEAST_FREE_BYTES } from "../models/mod.ts";
import type { Invocation } from "./invocation.ts";
import { CommandRefused } from "./run.ts";

/** Thrown if standard input cannot be used. The message is a part of a sentence. */
export class InputRefused extends Error {}

class EmptyInput extends InputRefused {}

/**
 * Yields standard input. Throws {@linkcode InputRefused} if it is empty, or if the disk of `folder` would have less than
 * 256 MB left.
 */
export async function* readWholeInput(
  { input }: Pick<Invocation, "input">,
  folder: string,
): AsyncGenerator<Buffer> {
  const { bavail, bsize } = statfsSync(folder);
  const most = bavail * bsize - LEAST_FREE_BYTES;
  let size = 0;
  for await (const chunk of input) {
    size += chunk.length;
    if (size > most) throw new InputRefused(`standard input is larger than the free space for ${folder}`);
    yield Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
  }
  if (size === 0) throw new EmptyInput("standard input is empty");
}

/**
 * Keeps standard input in a file without a name in `$TMPDIR`, or in /var/tmp, and calls `work` with a path that leads
 * to it. The kernel deletes the file when this process ends, however it ends.
 */
export async function withKeptInput<Result>(
  invocation: Invocation,
  work: (path: string) => Promise<Result>,
): Promise<Result> {
  const folder = invocation.env.TMPDIR || "/var/tmp";
  const name = join(folder, `claviger-${randomUUID()}`);
  let file: number | undefined;
  try {
    file = openSync(name, "wx+", 0o600);
    rmSync(name);
    for await (const bytes of readWholeInput(invocation, folder))
      for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
  } catch (error) {
    if (file !== undefined) closeSync(file);
    const why = reasonOf(error);
    throw new CommandRefused(
      error instanceof EmptyInput
        ? `Cannot use the backup: ${why}`
        : `Cannot keep standard input in ${folder} while it is read twice: ${why}; name another folder in TMPDIR`,
      { cause: error },
    );
  }
  try {
    return await work(`/proc/self/fd/${file}`);
  } finally {
    closeSync(file);
  }
}
