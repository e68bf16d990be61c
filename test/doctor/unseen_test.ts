/** What a user is told of an installation of which some settings, or files, are closed to that user. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { type Config, readConfig } from "../../src/config.ts";
import { examine } from "../../src/doctor/finding.ts";
import { examineDatabase, examineHost, type Finding } from "../../src/doctor/mod.ts";
import { isRefusal } from "../../src/refusal.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const SECRET = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const folder = mkdtempSync(join(tmpdir(), "claviger-unseen-"));
let target: TestDatabase;
beforeAll(async () => {
  target = await createTestDatabase();
  const now = systemClock.now();
  await target.database.query(
    (sql) => sql`insert into secret_canary (sealed, created_at) values (${"sealed"}, ${now})`,
  );
});
afterAll(async () => {
  await target.close();
  rmSync(folder, { recursive: true });
});

async function examineAll(env: Record<string, string>, unseen?: string): Promise<(name: string) => Finding> {
  const config = readConfig({
    env: { CLAVIGER_DATA_DIR: folder, CLAVIGER_PORT: "0", ...env },
    envFile: "/dev/null",
    workingFolder: folder,
    isRoot: false,
    unseen,
  });
  if (isRefusal(config)) throw new Error(config.sentence);
  const patient = { config: config satisfies Config, clock: systemClock };
  const findings = [
    ...(await examineHost(patient)),
    ...(await examineDatabase({ ...patient, ...target, place: "here" })),
  ];
  return (name) => findings.find((finding) => finding.name === name) ?? { name, state: "fail", message: "" };
}

const APP = {
  CLAVIGER_GITHUB_APP_ID: "1",
  CLAVIGER_GITHUB_INSTALLATION_ID: "2",
  CLAVIGER_GITHUB_REPOSITORY: "core",
};
const CLOSED_TO_US = ["tls", "github app", "secret", "installer token", "public address"];

describe("claviger doctor, of what the service may have and this user cannot see,", () => {
  test("says that, not that it is missing", async () => {
    const unseen = "the service's settings are root's";
    for (const env of [{}, APP]) {
      const of = await examineAll(env, unseen);
      for (const name of CLOSED_TO_US) {
        expect(of(name)).toEqual({
          name,
          state: "skip",
          message: `cannot be seen: ${unseen}`,
          remedy: "run as root",
        });
      }
    }
  });

  test("still judges what is seen", async () => {
    const env = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org", CLAVIGER_SECRET: SECRET };
    const of = await examineAll(env, "the service's settings are root's");
    expect(of("public address").state).toBe("ok");
    expect(of("secret")).toMatchObject({
      state: "fail",
      message: "the database was sealed with another one",
    });
  });

  test("calls missing what is missing where all is seen", async () => {
    const of = await examineAll(APP);
    expect(
      ["tls", "github app", "secret", "installer token", "public address"].map((name) => of(name).state),
    ).toEqual(["ok", "fail", "fail", "fail", "ok"]);
  });

  test("skips what is closed to it, and no other failure", async () => {
    const failing = (code: string) => ({
      name: code,
      examine: () => {
        throw Object.assign(new Error(`${code}: no`), { code });
      },
    });
    expect(await examine({}, [failing("EACCES"), failing("EIO")])).toEqual([
      {
        name: "EACCES",
        state: "skip",
        message: "cannot be seen by this user: EACCES: no",
        remedy: "run as root",
      },
      { name: "EIO", state: "fail", message: "cannot be looked at: EIO: no", remedy: "run as root" },
    ]);
  });
});
