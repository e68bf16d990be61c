/** What `backup --verify` and `restore` have in common: a backup is verified before anything else is done with it. */
import { dirname, resolve } from "node:path";
import { counted } from "../base/render_count.ts";
import { type ProvenBackup, verifyBackup } from "../installation/backup/mod.ts";
import { modelsFolderOf } from "../models/mod.ts";
import { createProgressLine, renderMissing } from "./backup_report.ts";
import { withKeptInput } from "./file_input.ts";
import type { Invocation } from "./invocation.ts";
import type { Printer } from "./print.ts";
import { DoneInPart, orRefuse } from "./run.ts";

/** Verifies a backup and calls `work`, which can read it again: standard input is kept in a file until `work` ends. */
export async function withProven(
  invocation: Invocation,
  file: string,
  work: (proven: ProvenBackup) => Promise<void>,
): Promise<void> {
  const prove = async (path: string, names: { readonly name?: string; readonly besideFolder?: string }) => {
    const progress = createProgressLine(invocation, () => {});
    await work(orRefuse(await verifyBackup(path, { ...progress, ...names }).finally(progress.clear)));
  };
  const path = resolve(invocation.workingFolder, file);
  await (file === "-"
    ? withKeptInput(invocation, (kept) => prove(kept, { name: "standard input" }))
    : prove(path, { besideFolder: modelsFolderOf({ dataDir: dirname(path) }) }));
}

/** Names the model files that could not be saved when the backup was made; ends the command if there are any. */
export function reportMissing(
  { name, head: { missing_models: missing = [] } }: ProvenBackup,
  print: Printer,
): void {
  if (missing.length === 0) return;
  for (const model of missing) print.warn(renderMissing(model));
  throw new DoneInPart(
    `${name} lacks ${counted(missing.length, "model file")}, which could not be saved when it was made: look for ` +
      "them in an earlier backup, or add the models again under another version",
  );
}
