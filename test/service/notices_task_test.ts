/** The task that makes notices, with the state of the installation as a service finds it. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { DAY_MS } from "../../src/base/calendar.ts";
import { newUuid, parseId } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { VERSION } from "../../src/base/version.ts";
import { createUpkeep } from "../../src/database/upkeep/mod.ts";
import { createNoticesUpkeep, describeNotice, listNotices, remindLater } from "../../src/notices/mod.ts";
import { findInstallationState } from "../../src/service/find_installation_state.ts";
import { createTestClock } from "../support/clock.ts";
import { configOf } from "../support/config.ts";
import { createTestDatabase } from "../support/database.ts";
import { ACTOR, issue, orThrow } from "../support/issue.ts";
import { addNewModel } from "../support/new_model.ts";
import { useForEach } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";

const server = useForEach(createTestDatabase);
const folder = useFolder();

/** Makes the task of a process with usual settings. */
function createTask({
  processUuid = newUuid(),
  certificateEndsAt,
  onLook = () => {},
  demandFigures = () => {},
}: {
  readonly processUuid?: string;
  readonly certificateEndsAt?: Date | undefined;
  /** Called at each look at the installation. */
  readonly onLook?: () => void;
  readonly demandFigures?: () => void;
}) {
  const config = configOf({ CLAVIGER_DATA_DIR: join(folder, "data") });
  return createNoticesUpkeep({
    processUuid,
    settings: config.notices,
    findInstallation(context) {
      onLook();
      return findInstallationState(context, { config, certificateExpiresAt: () => certificateEndsAt });
    },
    demandFigures,
  });
}

/** Runs the task once as a service does, and returns the kinds of the open notices. */
async function run(now: Date, certificateEndsAt?: Date): Promise<string[]> {
  const clock = createTestClock(now.toISOString(), { stands: true });
  let demanded = 0;
  const task = createTask({ certificateEndsAt, demandFigures: () => demanded++ });
  const upkeep = createUpkeep({ address: server.address, clock, log: silentLog, tasks: [task] });
  try {
    await upkeep.runAll();
    expect(upkeep.stats().failures).toEqual({ notices: 0 });
  } finally {
    await upkeep.stop();
  }
  expect(demanded).toBe(1);
  const open = await listNotices(server.database, { now, filter: { state: "open" } });
  return open.map((notice) => `${notice.kind}: ${describeNotice(notice)}`).toSorted();
}

test("The task notices the backup, the certificate and files of models by the rules of doctor", async () => {
  const now = new Date();
  expect(await run(now)).toEqual([]);
  // A file that is registered, and not in the folder.
  await addNewModel(server.database, { name: "gone" }, { now });
  await server.database.query(
    (sql) => sql`
      with file as (
        insert into model_files (sha256, size_bytes, created_at) values (${"ab".repeat(32)}, 7, ${now}::timestamptz)
      )
      update model_versions set file = ${"ab".repeat(32)}, download_url = null`,
  );
  const later = new Date(now.getTime() + 2 * DAY_MS);
  const found = await run(later, new Date(later.getTime() + 3 * DAY_MS));
  expect(found.map((text) => text.split(":")[0])).toEqual([
    "backup_overdue",
    "certificate_end",
    "model_files",
  ]);
  await server.database.query(
    (sql) => sql`insert into last_backup (taken_at) values (${later}::timestamptz)`,
  );
  // Half an hour later, because another process of this host might still have the old certificate.
  const [first] = await run(new Date(later.getTime() + 1_800_000), new Date(later.getTime() + 90 * DAY_MS));
  expect(first).toMatch(
    /^model_files: Files of models in \S+ of \S+ are not as they should be: missing or cut short/,
  );
});

test("Another process looks at the customers when the one that looks has ended, and each looks every tenth time", async () => {
  const now = new Date();
  const clock = createTestClock(now.toISOString(), { stands: true });
  const isStopping = () => false;
  const [first, second] = [newUuid(), newUuid()];
  await server.database.query(
    (sql) => sql`
      insert into processes (id, version, host, address) values (${first}::uuid, ${VERSION}, 'one', 'http://0.0.0.0:8080')`,
  );
  let installations = 0;
  const task = createTask({ processUuid: second, onLook: () => installations++ });
  const run = () => task.run({ database: server.database, clock, log: silentLog, isStopping });
  const states = async () => (await listNotices(server.database, { now })).map(({ state }) => state);
  const end = new Date(now.getTime() + 3 * DAY_MS);
  const { licenseUuid } = await issue(server.database, {
    expiresAt: end,
    now: new Date("2026-01-01T00:00:00Z"),
  });

  await run();
  expect({ installations, states: await states() }).toEqual({ installations: 1, states: [] });
  await server.database.query((sql) => sql`update processes set seen_at = now() - interval '3 minutes'`);
  await run();
  expect({ installations, states: await states() }).toEqual({ installations: 1, states: ["open"] });
  await server.database.query(
    (sql) => sql`update licenses set expires_at = '2099-01-01' where id = ${licenseUuid}::uuid`,
  );
  for (let n = 0; n < 9; n++) await run();
  expect({ installations, states: await states() }).toEqual({ installations: 2, states: ["open"] });
  await run();
  expect(await states()).toEqual(["withdrawn"]);
});

test("A look that fails does not keep the task from the others, and is repeated at the next run", async () => {
  const now = new Date();
  const clock = createTestClock(now.toISOString(), { stands: true });
  let demanded = 0;
  const task = createTask({
    certificateEndsAt: new Date(now.getTime() + 3 * DAY_MS),
    demandFigures: () => demanded++,
  });
  const run = () => task.run({ database: server.database, clock, log: silentLog, isStopping: () => false });
  const remindAts = async () =>
    (await listNotices(server.database, { now, filter: { kind: "license_end" } })).map(
      ({ remindAt }) => remindAt,
    );
  await issue(server.database, {
    expiresAt: new Date(now.getTime() + 3 * DAY_MS),
    now: new Date("2026-01-01T00:00:00Z"),
  });

  await server.database.query((sql) => sql`alter table refused_hours rename to refused_hours_away`);
  await expect(run()).rejects.toThrow("refused_hours");
  const [certificate, end] = await listNotices(server.database, { now });
  expect([certificate?.kind, end?.kind]).toEqual(["certificate_end", "license_end"]);
  const yesterday = new Date(now.getTime() - DAY_MS);
  orThrow(
    await remindLater(server.database, parseId("ntc", end?.id ?? "") ?? "", {
      actor: ACTOR,
      now: yesterday,
      remindAt: now,
    }),
  );
  expect(await remindAts()).toEqual([now]);
  await expect(run()).rejects.toThrow("refused_hours");
  expect({ demanded, remindAts: await remindAts() }).toEqual({ demanded: 2, remindAts: [null] });
  await server.database.query((sql) => sql`alter table refused_hours_away rename to refused_hours`);
  await run();
  await run();
  expect(demanded).toBe(3);
});
