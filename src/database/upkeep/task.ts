import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import type { Database } from "../mod.ts";

/** Work of a room that the upkeep repeats. */
export interface UpkeepTask {
  /** The name of the task in the metrics and in the log. */
  readonly name: string;
  /** The pause between two runs. After a failure it is at most a minute at first, and doubles up to this. */
  readonly everyMs: number;
  /** The time from the start of the service to the first run; `everyMs` by default. */
  readonly firstMs?: number;
  /** Runs the task at the start as well, and the start waits for the run. */
  readonly atStart?: boolean;
  /** Gives each run a connection of its own, whose statements may take long. Such tasks run one after another. */
  readonly isLong?: boolean;
  /** The log message when a run fails. */
  readonly failed: string;
  run(context: TaskContext): Promise<void>;
}

export interface TaskContext {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
  /** Called between statements: true ends the work. */
  readonly isStopping: () => boolean;
}
