/** Notices about the installation: backup, certificate, installer token and files of models. */
import { describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import { setInstallerToken } from "../../src/models/repository_token/mod.ts";
import {
  describeNotice,
  type InstallationState,
  markDone,
  noticeInstallation,
} from "../../src/notices/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { openSecrets } from "../support/secrets.ts";
import { useForEach } from "../support/use.ts";
import { notices, SETTINGS, shown } from "./notices_kit.ts";

const server = useForEach(createTestDatabase);
const NOW = "2026-11-20T12:00:00Z";

const WELL: InstallationState = {
  host: "one",
  certificateEndsAt: undefined,
  backup: {
    since: new Date("2026-11-20T00:00:00Z"),
    dueAt: new Date("2026-11-21T12:00:00Z"),
    isOverdue: false,
  },
  wrongModelFiles: null,
  modelsPlace: "/var/lib/claviger/models of one",
};

/** Looks once at an installation in a state. */
async function look(at: string, state: Partial<InstallationState> = {}): Promise<void> {
  const now = new Date(at);
  const clock = { now: () => now, nowMs: () => now.getTime(), monotonicMs: () => 0 };
  await noticeInstallation({ database: server.database, clock, isStopping: () => false }, SETTINGS, {
    ...WELL,
    ...state,
  });
}

/** Returns the sentences of the open notices. */
const said = async () => (await notices(server.database, NOW)).map(describeNotice);

test("An installation that is well has no notice", async () => {
  await look(NOW);
  expect(await shown(server.database, NOW)).toEqual([]);
});

test("A backup that is overdue has a notice until the next one", async () => {
  const backup = { ...WELL.backup, isOverdue: true };
  await look("2026-11-21T13:00:00Z", { backup });
  await look("2026-11-23T13:00:00Z", { backup });
  expect(await said()).toEqual([
    "There has been no backup since 2026-11-20 00:00 UTC: the next one was due by 2026-11-21 12:00 UTC. " +
      "Look at why the timer took none",
  ]);
  expect(await notices(server.database, NOW)).toMatchObject([
    { trueSince: new Date("2026-11-21T12:00:00Z") },
  ]);
  // Another process finds it later, by its own setting: what one finds stays open.
  await look("2026-11-23T13:05:00Z");
  expect(await shown(server.database, NOW)).toEqual(["backup_overdue 0 open"]);
  const next = { ...WELL.backup, since: new Date("2026-11-23T13:20:00Z") };
  await look("2026-11-23T13:25:00Z", { backup: next });
  expect(await notices(server.database, NOW, {})).toMatchObject([
    { state: "withdrawn", withdrawnFor: "mended" },
  ]);
});

test("A notice that no process has found for a day is withdrawn", async () => {
  await look("2026-11-21T13:00:00Z", { backup: { ...WELL.backup, isOverdue: true } });
  await look("2026-11-21T14:00:00Z", { host: "gone", certificateEndsAt: new Date("2026-12-01T00:00:00Z") });
  // Without the host, and with a setting by which the backup is not overdue.
  await look("2026-11-22T13:00:00Z");
  expect(await shown(server.database, NOW)).toEqual(["backup_overdue 0 open", "certificate_end -30 open"]);
  await look("2026-11-22T14:00:01Z");
  expect(await notices(server.database, NOW, {})).toMatchObject([
    { withdrawnFor: "unseen" },
    { withdrawnFor: "unseen" },
  ]);
});

describe("a certificate that ends", () => {
  const end = { certificateEndsAt: new Date("2026-12-01T00:00:00Z") };

  test("has a notice for the nearest of the days, and after its end, until it is replaced", async () => {
    await look("2026-10-31T00:00:00Z", end);
    expect(await said()).toEqual([]);
    for (const at of ["2026-11-02T00:00:00Z", "2026-11-24T00:00:00Z", "2026-12-01T00:00:00Z"])
      await look(at, end);
    expect(await shown(server.database, NOW)).toEqual([
      "certificate_end -30 replaced",
      "certificate_end -7 replaced",
      "certificate_end 0 open",
    ]);
    expect((await said())[0]).toStartWith(
      "The certificate of one ended at 2026-12-01 00:00 UTC. Replace its files",
    );
    await look("2026-12-02T00:00:00Z", { certificateEndsAt: new Date("2027-12-01T00:00:00Z") });
    expect(await said()).toEqual([]);
  });

  test("keeps its notice while one of two processes of the host has it", async () => {
    const renewed = { certificateEndsAt: new Date("2027-12-01T00:00:00Z") };
    for (let minutes = 0; minutes < 60; minutes += 10) {
      const at = (minute: number) => `2026-11-24T12:${String(minute).padStart(2, "0")}:00Z`;
      await look(at(minutes), end);
      await look(at(minutes + 5), renewed);
    }
    expect(await shown(server.database, NOW)).toEqual(["certificate_end -7 open"]);
    await look("2026-11-24T13:15:00Z", renewed);
    expect(await shown(server.database, NOW)).toEqual(["certificate_end -7 open"]);
    await look("2026-11-24T13:15:01Z", renewed);
    expect(await shown(server.database, NOW)).toEqual(["certificate_end -7 withdrawn"]);
  });

  test("of another host keeps its notice", async () => {
    await look(NOW, end);
    await look(NOW, { host: "two", certificateEndsAt: new Date("2027-12-01T00:00:00Z") });
    expect(await shown(server.database, NOW)).toEqual(["certificate_end -30 open"]);
  });
});

test("A repository token that ends has a notice until another one is set", async () => {
  const set = async (end: string | null) =>
    orThrow(
      await setInstallerToken(
        server.database,
        { token: "a-token", expiresAt: end === null ? null : new Date(end) },
        { secrets: openSecrets(), actor: ACTOR, now: new Date(NOW) },
      ),
    );
  await set("2026-11-22T00:00:00Z");
  await look(NOW);
  expect(await said()).toEqual([
    "The stored repository token ends within 7 days, at 2026-11-22 00:00 UTC. Set another one with `claviger installer set-token`",
  ]);
  await set(null);
  await look(NOW);
  expect(await said()).toEqual([]);
});

const missing = (says: string) => ({ wrongModelFiles: { fault: "missing", says } }) as const;

test("Wrong files of models have a notice while they are wrong, and nothing is said while nobody knows", async () => {
  const wrong = missing("missing or cut short in the folder /m, as this host sees it: 1 of 3");
  await look(NOW, wrong);
  await look(NOW, { wrongModelFiles: undefined });
  expect(await said()).toEqual([
    "Files of models in /var/lib/claviger/models of one are not as they should be: " +
      "missing or cut short in the folder /m, as this host sees it: 1 of 3. " +
      "`claviger models verify` names them",
  ]);
  await look("2026-11-20T12:26:00Z");
  expect(await shown(server.database, NOW)).toEqual(["model_files 0 withdrawn"]);
  // The same fault again on the same day is the same notice again.
  await look(NOW, wrong);
  expect(await shown(server.database, NOW)).toEqual(["model_files 0 open"]);
});

test("Wrong files of models have one notice, however many they are, and another one for another fault", async () => {
  await look("2026-11-20T12:00:00Z", missing("1 of 3"));
  await look("2026-11-20T12:10:00Z", missing("2 of 3"));
  await look("2026-11-21T12:10:00Z", missing("1 of 3"));
  expect(await shown(server.database, NOW)).toEqual(["model_files 0 open"]);
  const unreachable = { wrongModelFiles: { fault: "unreachable", says: "no answer" } } as const;
  for (const minute of [20, 30, 40]) await look(`2026-11-21T12:${minute}:00Z`, unreachable);
  expect(await shown(server.database, NOW)).toEqual(["model_files 0 withdrawn", "model_files 0 open"]);
});

test("Wrong files of models that are marked as done have another notice on the next day, if they are still wrong", async () => {
  await look("2026-11-20T12:00:00Z", missing("1 of 3"));
  const [notice] = await notices(server.database, NOW);
  const by = { actor: ACTOR, now: new Date("2026-11-22T12:00:00Z") };
  orThrow(await markDone(server.database, parseId("ntc", notice?.id ?? "") ?? "", by));
  await look("2026-11-22T23:59:59Z", missing("2 of 3"));
  expect(await shown(server.database, NOW)).toEqual(["model_files 0 done"]);
  for (const minute of ["00", "10"]) await look(`2026-11-23T00:${minute}:00Z`, missing("2 of 3"));
  expect(await shown(server.database, NOW)).toEqual(["model_files 0 done", "model_files 0 open"]);
});
