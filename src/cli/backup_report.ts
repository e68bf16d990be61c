/** Reports on a backup: its progress, its contents and its origin. */

import { isRefusal } from "../base/refusal.ts";
import { counted, renderCount } from "../base/render_count.ts";
import { LINE_ANEW } from "../base/text/mod.ts";
import {
  type Backup,
  installationOf,
  type MissingModel,
  type Progress,
  type ProvenBackup,
  type Sums,
} from "../installation/backup/mod.ts";
import type { Config } from "../installation/config/mod.ts";
import { findSecret } from "../installation/mod.ts";
import { modelsFolderOf } from "../models/mod.ts";
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
export function toBackupDocument({ head, sums }: Pick<ProvenBackup, "head" | "sums">) {
  return {
    claviger: head.claviger,
    made_at: head.made_at,
    brand: head.brand,
    schema: head.migrations.length,
    with_secret: head.secret,
    with_models: head.models,
    tables: Object.fromEntries(sums.tables.map(({ name, rows }) => [name, rows])),
    models: sums.models.length,
    installation: installationOf(head) ?? null,
    keys: countKeys({ head, sums }),
    missing_models: head.missing_models ?? [],
  };
}

/** Names a model file that is not in a backup, and says why. */
export function renderMissing({ sha256, versions, why }: MissingModel): string {
  const of = versions.length === 0 ? "of no version" : `of ${versions.join(", ")}`;
  return `Not saved: the model file ${of}, sha256:${sha256}: ${why}`;
}

/** Says what is not in a backup, and where that must be kept. `folder` is where the model files are beside it. */
export function renderLeftOut(
  { head, modelFiles }: Pick<Backup, "head" | "modelFiles">,
  config: Config,
  folder: string | undefined,
): string {
  const hasModels = head.models || head.beside !== undefined;
  const missing = head.missing_models?.length ?? 0;
  const withoutFiles = hasModels ? missing : modelFiles;
  // Without an installation nothing is sealed, and no secret is needed.
  const withoutSecret = !head.secret && head.installation !== null;
  if (!withoutSecret && withoutFiles === 0) {
    const models = folder === undefined || modelFiles === 0 ? "" : `the model files are in ${folder}, and `;
    return `Nothing is left out: ${models}whoever can read the backup has the secret`;
  }
  const unsaved = missing > 0 ? " that could not be saved" : "";
  const what = [
    ...(withoutSecret ? ["the secret"] : []),
    ...(withoutFiles > 0 ? [`${counted(withoutFiles, "model file")}${unsaved}`] : []),
  ];
  const isInBucket = config.modelsBucket !== undefined;
  const kept = [
    ...(withoutSecret ? [secretPlaceOf(config)] : []),
    ...(withoutFiles > 0 && !hasModels && !isInBucket ? [`the folder ${modelsFolderOf(config)}`] : []),
  ];
  const [copies, them] = kept.length === 1 ? ["a copy", "it"] : ["copies", "them"];
  return [
    `Not in it: ${what.join(" and ")}`,
    ...(kept.length > 0
      ? [`keep ${copies} of ${kept.join(" and ")} in another place, because a restore needs ${them}`]
      : []),
    ...(withoutFiles > 0 && !hasModels && isInBucket
      ? [`the model files stay in ${config.modelsBucket?.url}`]
      : []),
  ].join("; ");
}

function secretPlaceOf(config: Config): string {
  const secret = findSecret(config);
  return secret === undefined || isRefusal(secret) ? "the secret of the service" : secret.source;
}

/** Says how many rows, tables and model files a backup has. */
export function renderContents({ tables, models }: Sums): string {
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  const files = models.length === 0 ? "" : ` and ${counted(models.length, "model file")}`;
  return `${counted(rows, "row")} of ${counted(tables.length, "table")}${files}`;
}

/** Says when and by which version a backup was made, of which installation, and how many keys that had. */
export function renderOrigin({ head, sums }: Pick<ProvenBackup, "head" | "sums">): string {
  const at = `made ${head.made_at.slice(0, 19)}Z by Claviger ${head.claviger}, schema ${head.migrations.length}`;
  const of = installationOf(head)?.slice(0, 8) ?? "unknown";
  return `${at}, installation ${of} with ${counted(countKeys({ head, sums }), "key")}`;
}

function countKeys({ head, sums }: Pick<ProvenBackup, "head" | "sums">): number {
  return head.keys ?? sums.tables.find(({ name }) => name === "keys")?.rows ?? 0;
}

/** Renders a size for people: `12 kB` or `3.4 MB`. */
export function toSize(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Returns seconds, rounded to a tenth. */
export function toSeconds(ms: number): number {
  return Math.round(ms / 100) / 10;
}
