/** Upkeep: a task that fails is logged and tried again, and does not delay other tasks. */
import { beforeEach, describe, expect, spyOn, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { createLog } from "../../../src/base/log.ts";
import { createUpkeep, type Upkeep, type UpkeepTask } from "../../../src/database/upkeep/mod.ts";
import { createTestDatabase } from "../../support/database.ts";
import { useForEach } from "../../support/use.ts";

const server = useForEach(createTestDatabase);
const opened = useForEach(async () => {
  const upkeeps: Upkeep[] = [];
  const close = async () => {
    for (const upkeep of upkeeps) await upkeep.stop();
  };
  return { upkeeps, close };
});
let lines: string[];
beforeEach(() => {
  lines = [];
});

function upkeepOf(...tasks: readonly UpkeepTask[]): Upkeep {
  const log = createLog({ format: "text", clock: systemClock, write: (line) => void lines.push(line) });
  const upkeep = createUpkeep({ address: server.address, clock: systemClock, log, tasks });
  opened.upkeeps.push(upkeep);
  return upkeep;
}

/** Returns a task that does nothing, except what the given fields say. */
function task(name: string, fields: Partial<UpkeepTask> = {}): UpkeepTask {
  return { name, everyMs: 3_600_000, failed: `Could not do ${name}`, run: async () => {}, ...fields };
}

/** Runs the work with timers that are recorded and never fire. Returns their durations. */
async function pausesDuring(work: (fire: () => Promise<void>) => Promise<void>): Promise<number[]> {
  const pauses: number[] = [];
  let last: (() => Promise<void>) | undefined;
  const timers = spyOn(globalThis, "setTimeout").mockImplementation(((
    run: () => Promise<void>,
    ms: number,
  ) => {
    pauses.push(ms);
    last = run;
  }) as unknown as typeof setTimeout);
  try {
    await work(async () => await last?.());
  } finally {
    timers.mockRestore();
  }
  return pauses;
}

describe("createUpkeep()", () => {
  test("start() plans each task for its first time; by default that is after its pause", async () => {
    const upkeep = upkeepOf(task("early", { firstMs: 5_000 }), task("late", { everyMs: 15_000 }));
    expect(await pausesDuring(() => upkeep.start())).toEqual([5_000, 15_000]);
  });

  test("start() waits for the tasks of the start, and plans no task when it is stopped meanwhile", async () => {
    const ran: string[] = [];
    const end = Promise.withResolvers<void>();
    const waits = async () => {
      await end.promise;
      ran.push("needed");
    };
    const upkeep = upkeepOf(
      task("needed", { atStart: true, run: waits }),
      task("other", { everyMs: 15_000 }),
    );
    const timers = spyOn(globalThis, "setTimeout");
    const started = upkeep.start().then(() => ran.push("started"));
    const stopped = upkeep.stop();
    end.resolve();
    await Promise.all([started, stopped]);
    const pauses = timers.mock.calls.map(([, ms]) => ms);
    timers.mockRestore();
    expect(ran).toEqual(["needed", "started"]);
    for (const ms of [15_000, 3_600_000]) expect(pauses).not.toContain(ms);
  });

  test("tries a failed task again after a minute, and after twice that for each further failure", async () => {
    let isFailing = true;
    const run = async () => {
      if (isFailing) throw new Error("no such table");
    };
    const upkeep = upkeepOf(task("claims", { everyMs: 600_000, firstMs: 30_000, run }));
    const pauses = await pausesDuring(async (fire) => {
      await upkeep.start();
      for (let round = 0; round < 6; round++) await fire();
      isFailing = false;
      await fire();
      isFailing = true;
      await fire();
    });
    const afterFailures = [60_000, 120_000, 240_000, 480_000, 600_000, 600_000];
    expect(pauses).toEqual([30_000, ...afterFailures, 600_000, 60_000]);
  });

  test("a task that fails prevents no other; its failures are counted, and each reason is logged once", async () => {
    let reason: string | undefined = "no such table";
    let others = 0;
    const run = async () => {
      if (reason !== undefined) throw new Error(reason);
    };
    const upkeep = upkeepOf(task("claims", { run }), task("other", { run: async () => void others++ }));
    for (let round = 0; round < 3; round++) await upkeep.runAll();
    expect(others).toBe(3);
    expect(upkeep.stats().failures).toEqual({ claims: 3, other: 0 });
    expect(lines).toEqual([
      expect.stringMatching(/warn {2}Could not do claims task=claims reason="no such table"/),
    ]);

    reason = undefined;
    await upkeep.runAll();
    expect(lines.splice(0)[1]).toContain("An upkeep task that had failed has succeeded task=claims");
    reason = "no such table";
    await upkeep.runAll();
    expect(lines).toHaveLength(1);
    expect(upkeep.stats().failures).toEqual({ claims: 4, other: 0 });
  });

  test("runs long tasks one after another, each with a connection whose statements may take long", async () => {
    const seen: { readonly name: string; readonly beside: number; readonly timeout: string | undefined }[] =
      [];
    let running = 0;
    const long = (name: string) =>
      task(name, {
        atStart: true,
        isLong: true,
        async run({ database }) {
          const beside = running++;
          const [row] = await database.query<{ timeout: string }>(
            (sql) => sql`
              select current_setting('client_connection_check_interval') as timeout from pg_sleep(0.05)`,
          );
          seen.push({ name, beside, timeout: row?.timeout });
          running--;
        },
      });
    await upkeepOf(long("first"), long("second"), long("third")).start();
    const alone = { beside: 0, timeout: "1s" };
    expect(seen).toEqual(["first", "second", "third"].map((name) => ({ name, ...alone })));
  });
});
