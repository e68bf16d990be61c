/** Reports on a backup: its progress, its contents and its origin. */
import type { Progress, ProvenBackup, Sums } from "../backup/mod.ts";
import { counted, renderCount } from "../render_count.ts";
import { LINE_ANEW } from "../text/mod.ts";
import type { Invocation } from "./invocation.ts";

/** Creates a line on the terminal that shows the progress. Without a terminal it shows nothing. */
export function createProgressLine({ isTerminal, clock, err }: Invocation, stopIfInterrupted: () => void) {
  let shownMs = Number.NEGATIVE_INFINITY;
  return {
    onProgress({ doing, what, done, of }: Progress) {
      const nowMs = clock.monotonicMs();
      if (nowMs - shownMs < PROGRESS_INTERVAL_MS) return;
      shownMs = nowMs;
      stopIfInterrupted();
      if (!isTerminal) return;
      const total = of === undefined ? "" : ` of ${renderCount(of)}`;
      err(`${LINE_ANEW}${doing} ${what}: ${renderCount(done)}${total}`);
    },
    clear() {
      if (isTerminal && shownMs !== Number.NEGATIVE_INFINITY) err(LINE_ANEW);
    },
  };
}

const PROGRESS_INTERVAL_MS = 100;

/** Describes a backup as `--json` prints it. */
export function describe({ head, sums }: Pick<ProvenBackup, "head" | "sums">) {
  return {
    claviger: head.claviger,
    made_at: head.made_at,
    brand: head.brand,
    schema: head.migrations.length,
    with_secret: head.secret,
    with_models: head.models,
    tables: Object.fromEntries(sums.tables.map(({ name, rows }) => [name, rows])),
    models: sums.models.length,
  };
}

/** Says how many rows, tables and model files a backup has. */
export function renderContents({ tables, models }: Sums): string {
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  const files = models.length === 0 ? "" : ` and ${counted(models.length, "model file")}`;
  return `${counted(rows, "row")} of ${counted(tables.length, "table")}${files}`;
}

/** Says when and by which version a backup was made. */
export function renderOrigin({ head }: Pick<ProvenBackup, "head">): string {
  return `made ${head.made_at.slice(0, 19)}Z by Claviger ${head.claviger}, schema ${head.migrations.length}`;
}

/** Renders a size for people: `12 kB` or `3.4 MB`. */
export function toSize(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Returns seconds, rounded to a tenth. */
export function toSeconds(ms: number): number {
  return Math.round(ms / 100) / 10;
}
