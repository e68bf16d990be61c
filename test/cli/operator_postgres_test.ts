/** Runs the whole program on the operator's own PostgreSQL: restored, served, examined and backed up. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { VERSION } from "../../src/base/version.ts";
import vex from "../../src/build/vex.json" with { type: "json" };
import { KNOWN_MINORS } from "../../src/installation/doctor/mod.ts";
import { hasPostgres183, type OtherPostgres, unpackPostgres183 } from "../support/postgres_programs.ts";
import { type CommandLine, createCommandLine, readFindings, refusalOf } from "./command_line.ts";

const INSIDE = bunPlatform.postgresInside()?.version ?? "";
const BACKUP = join(import.meta.dir, "../installation/backup/fixtures/0.1.0.tar.zst");

test("the known minor releases are those for which the faults of the PostgreSQL inside were reviewed", async () => {
  const archive = await bunPlatform.postgresArchive();
  expect(archive?.label).toStartWith(`${INSIDE}-`);
  const [major = "", minor] = INSIDE.split(".");
  expect(KNOWN_MINORS[major]).toBeGreaterThanOrEqual(Number(minor));
  const reviewed = vex.sources.find((source) => source.startsWith("PostgreSQL: "));
  expect(reviewed).toEndWith(` ${major}.${KNOWN_MINORS[major]}`);
  const known = Object.entries(KNOWN_MINORS).map((release) => release.join("."));
  const page = readFileSync("src/cli/guide/postgres.md", "utf8");
  expect(page).toContain(`was made: ${known.slice(0, -1).join(", ")} or ${known.at(-1)}.`);
});

describe.if(hasPostgres183)("claviger with CLAVIGER_POSTGRES_BIN", () => {
  let line: CommandLine;
  let other: OtherPostgres;
  const env = () => ({ CLAVIGER_POSTGRES_BIN: other.bin });
  const examined = async (given: Record<string, string>) =>
    readFindings(await line.here(["doctor", "--json"], { env: given })).of("database");

  beforeAll(async () => {
    line = createCommandLine();
    other = await unpackPostgres183();
    await line.json(["restore", BACKUP], { env: env() });
    // Unpacking and the first start may take long on a busy disk.
  }, 90_000);
  afterAll(() => {
    other?.remove();
    line?.remove();
  });

  test("serves a backup restored with it, and doctor says that a newer release was known", async () => {
    await using service = await line.serve([], { env: env() });
    const health = await fetch(`${service.url}/api/health`);
    expect(health.status).toBe(200);
    expect(await examined(env())).toMatchObject({
      state: "warn",
      message: `PostgreSQL 18.3 in ${line.dataDir}, run by ${other.bin}, older than 18.7, which was known when Claviger ${VERSION} was made`,
      remedy: "update PostgreSQL to the newest release of 18, and restart it",
    });
    // doctor reports the running one, whatever this command's settings say.
    expect((await examined({}))?.message).toContain(
      `PostgreSQL 18.3 in ${line.dataDir}, run by ${other.bin}`,
    );
  });

  test("makes doctor report that the service must be restarted for it", async () => {
    await using _ = await line.serve();
    expect(await examined({})).toMatchObject({
      state: "ok",
      message: `PostgreSQL ${INSIDE} in ${line.dataDir}, the one inside`,
    });
    expect(await examined(env())).toMatchObject({
      state: "warn",
      message: `PostgreSQL ${INSIDE} in ${line.dataDir}, the one inside, while ${other.bin} holds 18.3`,
      remedy: "restart the service: `systemctl restart claviger`",
    });
  });

  test("takes a backup that the embedded PostgreSQL restores", async () => {
    const file = join(line.folder, "by_18_3.tar.zst");
    const { tables } = await line.json(["backup", file, "--with-secret", "--with-models"], { env: env() });
    using inside = createCommandLine();
    expect((await inside.json(["restore", file])).tables).toEqual(tables);
  });

  test("is refused with the remedy if the folder is not PostgreSQL's", async () => {
    const ended = await line.here(["keys", "list"], { env: { CLAVIGER_POSTGRES_BIN: "/nonexistent/bin" } });
    expect(refusalOf(ended)).toMatch(
      /^Cannot run the PostgreSQL in \/nonexistent\/bin: there is no such folder; name the folder that holds/,
    );
  });
});
