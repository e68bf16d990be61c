/**
 * Makes the bundles of some machines one after the other, and says what became of each, whatever ends the work. A license that was
 * signed is noted and has its place, with or without a file: so nothing that was signed stays unsaid.
 */
import { isRefusal } from "../base/refusal.ts";
import { counted } from "../base/render_count.ts";
import type { KeySummary } from "../licensing/keys/mod.ts";
import { type LicenseSigner, renderExport } from "../licensing/signed_licenses/mod.ts";
import { BundleBroken, type BundlePlan, type SealedBundle, sealBundle } from "../models/bundles/mod.ts";
import { toSize } from "./backup_report.ts";
import type { BundleTarget } from "./bundle_targets.ts";
import type { DatabaseCall } from "./command.ts";
import { noteExported } from "./export_notes.ts";
import { renderFileFailure } from "./failures.ts";
import { renderRefusal } from "./remedies.ts";
import { CommandRefused, DoneInPart, endOnTheWay } from "./run.ts";
import { renderWriteFailure, writeNewFile } from "./write_new_file.ts";

/** A bundle whose license is signed. */
interface SignedBundle extends BundleTarget {
  readonly sealed: SealedBundle;
}

interface RefusedBundle {
  readonly fingerprint: string | null;
  readonly error: string;
}

interface BundleResults {
  readonly made: readonly SignedBundle[];
  readonly refused: readonly RefusedBundle[];
  /** The one whose license is signed and whose file is not written. */
  readonly unwritten?: SignedBundle | undefined;
  /** Those that are not made and not refused, with the unwritten one. */
  readonly missing: readonly BundleTarget[];
  /** What ended the work too early. */
  readonly failure?: unknown;
  /** Whether that happened while the license of the first missing one was signed, so that it may be noted. */
  readonly mayBeSigned?: boolean;
}

/** Makes each bundle, and stops at the first failure. `refused` are the machines that are known to get none. */
export async function makeBundles(
  call: DatabaseCall,
  {
    signer,
    plan,
    targets,
    request,
    refused: known,
  }: {
    readonly signer: LicenseSigner;
    readonly plan: BundlePlan;
    readonly targets: readonly BundleTarget[];
    readonly request: { readonly keyUuid: string; readonly days: number | undefined };
    readonly refused: readonly RefusedBundle[];
  },
): Promise<BundleResults> {
  const { actor, now, print, stopIfInterrupted } = call;
  const made: SignedBundle[] = [];
  const refused = [...known];
  for (const [index, target] of targets.entries()) {
    const { fingerprint, path, shown } = target;
    let unwritten: SignedBundle | undefined;
    let mayBeSigned = false;
    try {
      stopIfInterrupted();
      mayBeSigned = true;
      const sealed = await sealBundle(signer, plan, { ...request, fingerprint, actor, now });
      mayBeSigned = false;
      if (isRefusal(sealed)) {
        refused.push({ fingerprint: fingerprint ?? null, error: renderRefusal(sealed) });
        continue;
      }
      unwritten = { ...target, sealed };
      await write(call, path, sealed);
      made.push(unwritten);
    } catch (failure) {
      return { made, refused, unwritten, missing: targets.slice(index), failure, mayBeSigned };
    }
    // At once: a later one may fail.
    print.line(`Wrote ${shown} (${toSize(unwritten.sealed.sizeBytes)}): a license, ${describeFiles(plan)}`);
  }
  return { made, refused, missing: [] };
}

async function write({ stopIfInterrupted }: DatabaseCall, path: string, sealed: SealedBundle): Promise<void> {
  async function* chunks() {
    try {
      for await (const chunk of sealed.read()) {
        stopIfInterrupted();
        yield chunk;
      }
    } catch (error) {
      throw error instanceof CommandRefused ? error : new CommandRefused(describeUnread(error));
    }
  }
  try {
    await writeNewFile(path, chunks());
  } catch (error) {
    if (error instanceof CommandRefused) throw error;
    throw new CommandRefused(`Cannot write ${path}: ${renderWriteFailure(error)}`);
  }
}

function describeUnread(error: unknown): string {
  const why =
    error instanceof BundleBroken
      ? error.message
      : `one of its files cannot be read: ${renderFileFailure(error)}`;
  return `Cannot make bundle: ${why}`;
}

function describeFiles({ sources }: BundlePlan): string {
  const models = sources.filter(({ file }) => file.kind === "model").length;
  return `${counted(models, "model")} and ${counted(sources.length - models, "added file")}`;
}

/** Prints what became of each bundle, and ends the command as its status says. */
export function endBundles(
  call: DatabaseCall,
  {
    plan,
    key,
    results,
  }: { readonly plan: BundlePlan; readonly key: KeySummary; readonly results: BundleResults },
): void {
  const { made, refused, unwritten, failure } = results;
  const isSigned = made.length > 0 || unwritten !== undefined;
  if (isSigned || failure === undefined) printResults(call, plan, results);
  if (failure !== undefined) throw endOf(call, key, results);
  if (refused.length === 0) return;
  if (made.length === 0) throw new CommandRefused([...new Set(refused.map(({ error }) => error))].join("; "));
  throw new DoneInPart(describeRefused(refused));
}

function printResults(
  { print }: DatabaseCall,
  plan: BundlePlan,
  { made, refused, unwritten, missing, failure }: BundleResults,
): void {
  if (print.isJson) {
    const files = plan.sources.map(({ file }) => file);
    print.document({
      bundles: made.map((bundle) => ({
        file: bundle.path,
        bytes: bundle.sealed.sizeBytes,
        ...renderSigned(bundle),
      })),
      refused,
      unwritten: unwritten === undefined ? [] : [renderSigned(unwritten)],
      missing: missing.map(({ fingerprint }) => fingerprint ?? null),
      files,
      elsewhere: plan.elsewhere,
    });
    return;
  }
  // All end at the same time, and only the first can start the term. What was said of all places before is not repeated of one.
  for (const { sealed } of [...made, ...(unwritten ? [unwritten] : [])].slice(0, 1)) {
    const exported = renderExport(sealed.signed);
    noteExported(print, made.length > 1 ? { ...exported, warning: null } : exported);
  }
  if (failure === undefined) return;
  if (refused.length > 0) print.note(describeRefused(refused));
  const rest = missing.flatMap(({ fingerprint }) => fingerprint ?? []);
  if (rest.length === 0) return;
  print.note(
    `No bundle for ${counted(rest.length, "machine")}. To make the rest, write these lines into a file for --fingerprints:`,
  );
  for (const fingerprint of rest) print.note(fingerprint);
}

function renderSigned({ fingerprint, sealed }: SignedBundle) {
  const { license: _, file: __, ...exported } = renderExport(sealed.signed);
  return { fingerprint: fingerprint ?? null, ...exported };
}

function describeRefused(refused: readonly RefusedBundle[]): string {
  const why = [...new Set(refused.map(({ error }) => error))].join("; ");
  return `No bundle for ${refused.map(({ fingerprint }) => fingerprint).join(", ")}: ${why}`;
}

/** Returns what ends a command whose work a failure has ended. */
function endOf(
  { config }: DatabaseCall,
  key: KeySummary,
  { made, refused, unwritten, missing, failure, mayBeSigned }: BundleResults,
): unknown {
  const isSigned = made.length > 0 || unwritten !== undefined;
  if (!isSigned && !mayBeSigned) return failure;
  const all = made.length + refused.length + missing.length;
  const of = missing[0]?.fingerprint === undefined ? "" : ` for ${missing[0].fingerprint}`;
  const sentences = [
    ...(all > 1 ? [`${made.length} of ${counted(all, "bundle")} are made`] : []),
    ...(unwritten === undefined ? [] : [`the license${of} is signed and noted all the same`]),
    ...(mayBeSigned
      ? [
          `whether a license${of} was signed is not known: see \`claviger licenses outstanding --key ${key.id}\``,
        ]
      : []),
  ];
  return endOnTheWay(failure, { config, sentences, isDone: isSigned });
}
