/** The findings of `doctor` about the data folder, the certificate and the clock of the database server. */
import { beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Finding, KNOWN_MINORS } from "../../../src/installation/doctor/mod.ts";
import { makeCertificate } from "../../support/certificates.ts";
import { createTestClock } from "../../support/clock.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { useTestDatabase } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { examineAll } from "./doctor_kit.ts";

const DAY_MS = 86_400_000;
const folder = useFolder();
const dataDir = join(folder, "data");
const secret = join(dataDir, "secret");
const opened = useTestDatabase();

beforeAll(() => {
  mkdirSync(dataDir);
  writeFileSync(secret, "");
  setModes(0o700, 0o600);
});

function setModes(ofFolder: number, ofSecret: number): void {
  chmodSync(dataDir, ofFolder);
  chmodSync(secret, ofSecret);
}

interface ExaminedOptions {
  readonly movedMs?: number;
  readonly env?: Record<string, string>;
  readonly other?: TestDatabase;
}

/** Examines host and database with a clock that is moved by `movedMs`, and returns the finding with that name. */
async function examined(
  name: string,
  { movedMs = 0, env = {}, other = opened }: ExaminedOptions = {},
): Promise<Finding | undefined> {
  const clock = createTestClock();
  clock.advance(movedMs);
  return (await examineAll(other, { env: { CLAVIGER_DATA_DIR: dataDir, ...env }, clock }))(name);
}

describe("doctor's data folder", () => {
  test.each([
    [0o700, 0o600, undefined],
    [0o755, 0o400, undefined],
    [0o700, 0o640, `other users may read ${secret}`],
    [0o700, 0o610, `other users may read ${secret}`],
    [0o700, 0o604, `other users may read ${secret}`],
  ])("judges the mode of the folder and of its secret: %#", async (ofFolder, ofSecret, why) => {
    setModes(ofFolder, ofSecret);
    expect(await examined("data folder")).toMatchObject(
      why === undefined ? { state: "ok" } : { state: "fail", message: why },
    );
    setModes(0o700, 0o600);
  });
});

describe("doctor's tls", () => {
  test("fails outside the validity of the certificate, and warns two weeks before its end", async () => {
    const { certFile, keyFile } = makeCertificate(folder, "examined", 30);
    const env = { CLAVIGER_TLS_CERT: certFile, CLAVIGER_TLS_KEY: keyFile };
    for (const [days, state, message] of [
      [-2, "fail", "The certificate is valid only from"],
      [0, "ok", "the certificate is good until"],
      [20, "warn", "The certificate expires at"],
      [31, "fail", "The certificate expired at"],
    ] as const) {
      const finding = await examined("tls", { movedMs: days * DAY_MS, env });
      expect([days, finding]).toMatchObject([days, { state, message: expect.stringContaining(message) }]);
    }
  });
});

describe("doctor's database clock", () => {
  test.each([
    [0, "ok", "the same as here"],
    [30_000, "warn", /^\d+ s behind this machine's$/],
    [-30_000, "warn", /^\d+ s ahead of this machine's$/],
    [90_000, "fail", /behind/],
    [-90_000, "fail", /ahead/],
  ])("compares it with a clock that is moved by %i ms", async (movedMs, state, message) => {
    const finding = await examined("database clock", { movedMs });
    expect(finding).toMatchObject({ state, message: expect.stringMatching(message) });
  });
});

describe("doctor's database", () => {
  const [[major = "", minor = 0] = []] = Object.entries(KNOWN_MINORS).toReversed();
  test.each([
    [`${major}.${minor - 1}`, "warn"],
    [`${major}.${minor}`, "ok"],
    [`${major}.${minor} (Debian ${major}.${minor}-1.pgdg13+1)`, "ok"],
    [`${major}.${minor + 1}`, "ok"],
    [`${Number(major) + 1}.0`, "ok"],
  ])("judges a server with version %s that it does not run itself", async (version, state) => {
    await using other = await createTestDatabase();
    // Connections that are opened from now on find this function first.
    await inTransaction(other.address, (sql) =>
      sql.unsafe(`do $do$ begin
        create schema fake;
        create function fake.current_setting(name text) returns text language sql as
          $$select case name when 'server_version' then '${version}' else pg_catalog.current_setting(name) end$$;
        execute format('alter database %I set search_path to public, fake, pg_catalog', current_database());
      end $do$`),
    );
    const finding = await examined("database", { other });
    const older = state === "warn" ? `, older than ${major}.${minor}, which was known .*` : "";
    const message = new RegExp(`^PostgreSQL ${version.split(" ")[0]} in here, run by [^ ,]+${older}$`);
    expect(finding).toMatchObject({ state, message: expect.stringMatching(message) });
  });
});

describe("doctor's schema", () => {
  test.each([
    [
      "insert into schema_migrations values (9999, 'later', 'x', now())",
      "install the newer Claviger that migrated it",
    ],
    ["update schema_migrations set checksum = 'x' where number = 2", "do what this message says"],
    ["delete from schema_migrations where number > 1", "`claviger migrate`"],
  ])("names the remedy after %s", async (change, remedy) => {
    await using other = await createTestDatabase();
    await other.database.query((sql) => sql.unsafe(change));
    const finding = await examined("schema", { other });
    expect(finding).toMatchObject({ state: "fail", remedy });
  });

  test("does not advise to migrate while a process does so", async () => {
    await using other = await createTestDatabase();
    await other.database.query((sql) => sql`delete from schema_migrations where number > 1`);
    await inTransaction(other.address, async (sql) => {
      await sql`select pg_advisory_xact_lock(4127551889)`;
      expect(await examined("schema", { other })).toMatchObject({
        state: "fail",
        message: "The database is being migrated: try again when that is done",
        remedy: "see `claviger migrate --status` for how far it is",
      });
    });
  });
});

describe("doctor's backup", () => {
  test.each([
    [
      35,
      undefined,
      "ok",
      /^none since this database was made at \d{4}-\d\d-\d\d \d\d:\d\d UTC; the first is due by \d{4}-\d\d-\d\d \d\d:\d\d UTC$/,
    ],
    [
      37,
      undefined,
      "warn",
      /^none since this database was made at \d{4}-\d\d-\d\d \d\d:\d\d UTC; the first was due by \d{4}-\d\d-\d\d \d\d:\d\d UTC$/,
    ],
    [
      35,
      "now(), now()",
      "ok",
      /^taken at \d{4}-\d\d-\d\d \d\d:\d\d UTC and verified; the next is due by \d{4}-\d\d-\d\d \d\d:\d\d UTC$/,
    ],
    [
      37,
      "now(), now()",
      "warn",
      /^taken at \d{4}-\d\d-\d\d \d\d:\d\d UTC and verified; the next was due by \d{4}-\d\d-\d\d \d\d:\d\d UTC$/,
    ],
    [1, "now(), null", "ok", /^taken at \d{4}-\d\d-\d\d \d\d:\d\d UTC, not verified; the next is due by/],
    [
      1,
      "now(), '2026-11-01'",
      "ok",
      /, not verified; the last verified one at 2026-11-01 00:00 UTC; the next is/,
    ],
    [
      -2,
      "now(), now()",
      "warn",
      /^taken at \d{4}-\d\d-\d\d \d\d:\d\d UTC and verified; that is in the future, so a clock was wrong$/,
    ],
  ])("judges after %i hours %s", async (hours, times, state, message) => {
    const { database } = opened;
    await database.query((sql) => sql`delete from last_backup`);
    if (times !== undefined)
      await database.query((sql) =>
        sql.unsafe(`insert into last_backup (taken_at, verified_at) values (${times})`),
      );
    // The test database was made a moment ago, from a template that is older.
    await database.query((sql) => sql`update schema_migrations set applied_at = now()`);
    const finding = await examined("backup", { movedMs: hours * 3_600_000 });
    expect(finding).toMatchObject({ state, message: expect.stringMatching(message) });
  });

  test("judges by CLAVIGER_BACKUP_OVERDUE_HOURS", async () => {
    const env = { CLAVIGER_BACKUP_OVERDUE_HOURS: "3" };
    await opened.database.query((sql) => sql`delete from last_backup`);
    await opened.database.query((sql) => sql`insert into last_backup (taken_at) values (now())`);
    const states = [2, 4].map(
      async (hours) => (await examined("backup", { movedMs: hours * 3_600_000, env }))?.state,
    );
    expect(await Promise.all(states)).toEqual(["ok", "warn"]);
  });
});
