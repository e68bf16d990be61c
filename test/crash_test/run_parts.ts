/** Runs the parts of a plan, one stage after the other, and ends everything that it started. */
import { join } from "node:path";
import type { Random } from "../support/random.ts";
import { auditDatabase } from "./audit.ts";
import type { Fault } from "./faults.ts";
import type { Part } from "./plan.ts";
import type { Program } from "./program.ts";
import { PromiseBroken, type RoundResult, runRound } from "./round.ts";
import { createStage, type Stage } from "./stage.ts";

export interface RunOptions {
  readonly folder: string;
  readonly program: Program;
  readonly random: Random;
  /** Called before and after every round; `result` is undefined before. */
  readonly onRound?: (fault: Fault, result: RoundResult | undefined) => void;
  /**
   * Called with the present stage, so that the caller can end it at once; with undefined between two
   * stages.
   */
  readonly onStage?: (stage: Stage | undefined) => void;
  /** When this returns true, no more rounds begin. */
  readonly isInterrupted?: () => boolean;
}

/** Runs the parts. Throws the error of a round, after all processes have ended. */
export async function runParts(parts: readonly Part[], options: RunOptions): Promise<void> {
  let stage: Stage | undefined;
  try {
    for (const [index, part] of parts.entries()) {
      stage ??= await createStage({ ...options, name: part.stage, folder: join(options.folder, part.stage) });
      options.onStage?.(stage);
      for (const fault of part.faults(stage)) {
        if (options.isInterrupted?.()) return;
        options.onRound?.(fault, undefined);
        options.onRound?.(fault, await runRound(stage, fault));
      }
      if (parts[index + 1]?.stage === part.stage) continue;
      // Check once more, now all events that were ever acknowledged.
      await auditDatabase(stage.cluster, { ...stage, all: true });
      if (stage.ledger.violations.length > 0) throw new PromiseBroken(stage.ledger.violations);
      const ended = stage;
      stage = undefined;
      await ended.end();
    }
  } finally {
    await stage?.end();
    options.onStage?.(undefined);
  }
}
