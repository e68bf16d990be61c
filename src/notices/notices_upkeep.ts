import { isFirstProcess } from "../database/processes/mod.ts";
import type { UpkeepTask } from "../database/upkeep/mod.ts";
import { noteDue } from "./_due.ts";
import { noticeEnds } from "./_ends.ts";
import { noticeForecasts } from "./_forecast.ts";
import type { NoticeContext } from "./_in_batches.ts";
import { type InstallationState, noticeInstallation } from "./_installation.ts";
import { noticeFullPlaces } from "./_places.ts";
import { noticeQuotas } from "./_quota.ts";
import { noticeRefusals } from "./_refusals.ts";
import { noticeUses } from "./_uses.ts";
import { withdrawAhead } from "./_withdraw.ts";
import type { NoticeSettings } from "./settings.ts";

/** How often the service looks, for people. */
export const LOOKS_EVERY = "ten minutes";

interface UpkeepOptions {
  readonly processUuid: string;
  readonly settings: NoticeSettings;
  /** Finds the state of the installation. */
  readonly findInstallation: (context: NoticeContext) => Promise<InstallationState>;
  /** Starts the computation of the stored figures if they are due, and returns at once. */
  readonly demandFigures: () => void;
}

/**
 * Creates the task that makes notices and withdraws them. It looks at the state of things, not at what has passed since its last
 * run: after a pause it makes what is still true, once. One process looks at the customers, and each at what it sees of the
 * installation. Several may run it at the same time.
 */
export function createNoticesUpkeep({
  processUuid,
  settings,
  findInstallation,
  demandFigures,
}: UpkeepOptions): UpkeepTask {
  const lookAtCustomers = everyTenth();
  const lookAtInstallation = everyTenth();
  return {
    name: "notices",
    // Ten times as often as it looks, so that another process soon looks in place of one that has ended.
    everyMs: 60_000,
    failed: "Could not make notices: it is tried again",
    run: (context) =>
      runEach([
        () =>
          lookAtInstallation(async () =>
            noticeInstallation(context, settings, await findInstallation(context)),
          ),
        async () => {
          if (!context.isStopping() && (await isFirstProcess(context.database, processUuid)))
            await lookAtCustomers(async () => {
              // The next look finds these figures.
              demandFigures();
              await makeNotices(context, settings);
            });
        },
      ]),
  };
}

/** Runs each step, also after one that failed, and then throws the first failure. */
async function runEach(steps: readonly (() => Promise<void>)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) await step().catch((error: unknown) => failures.push(error));
  if (failures.length > 0) throw failures[0];
}

/**
 * Returns a function that looks at its first call and at each tenth call after a look that did not fail. One that failed is repeated
 * at the next call, a minute later, because the upkeep says in its log that a task has succeeded when a run of it has not failed.
 */
function everyTenth() {
  let left = 0;
  return async (look: () => Promise<void>) => {
    if (left > 0) {
      left--;
      return;
    }
    await look();
    left = 9;
  };
}

/** Makes the notices of customers, and withdraws those that are not true any more. What fails does not keep it from the rest. */
export async function makeNotices(context: NoticeContext, settings: NoticeSettings): Promise<void> {
  await runEach([
    () => withdrawAhead(context),
    () => noticeEnds(context, settings),
    () => noticeQuotas(context, settings),
    () => noticeForecasts(context),
    () => noticeFullPlaces(context),
    () => noticeRefusals(context, settings),
    () => noticeUses(context),
    // Last, so that nobody is reminded of what is not true any more.
    () => noteDue(context),
  ]);
}
