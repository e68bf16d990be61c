/** Where things are in a data folder. */
import { mkdtempSync } from "node:fs";
import { join, resolve } from "node:path";

export interface Layout {
  readonly dataDir: string;
  /** Locked by whoever uses the folder, and says who that is. */
  readonly lock: string;
  /** PGDATA. There only once it is whole: it is made under another name, then renamed. */
  readonly cluster: string;
}

export function layoutOf(dataDir: string): Layout {
  const folder = resolve(dataDir);
  return { dataDir: folder, lock: join(folder, "lock"), cluster: join(folder, "postgres") };
}

/**
 * Makes an empty folder (mode 0700) for something unfinished beside its final place. What of these is
 * left by an interrupted start is swept by the next.
 */
export function makeUnfinished(path: string): string {
  return mkdtempSync(`${path}.unfinished-`);
}

export function isUnfinished(name: string): boolean {
  return /^postgres.*\.unfinished-\w+$/.test(name);
}
