/** The findings of `doctor` and Health about how several processes count, and about the schema of a newer version. */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { newUuid } from "../../../src/base/ids.ts";
import { examineBriefly } from "../../../src/installation/doctor/mod.ts";
import { configOf } from "../../support/config.ts";
import { createTestDatabase } from "../../support/database.ts";
import { useForEach } from "../../support/use.ts";
import { examineAll } from "./doctor_kit.ts";

const target = useForEach(createTestDatabase);

/** Adds the row of a serving process; null for a program that does not say how it counts. */
async function serve(rateLimits: "process" | "shared" | null, seen = "0 s"): Promise<void> {
  await target.database.query(
    (sql) => sql`
      insert into processes (id, version, host, address, rate_limits, seen_at)
      values (${newUuid()}::uuid, '0.4.0', 'a', ${`http://a:${newUuid()}`}, ${rateLimits}, now() - ${seen}::interval)`,
  );
}

const examineRateLimits = async () => (await examineAll(target))("rate limits");

test("claviger doctor says that the balancer must hash by key if several processes count for themselves", async () => {
  await serve("process");
  await serve("process", "6 minutes");
  // It was replaced by a process at another address, and could not remove its row.
  await serve("process", "151 s");
  expect(await examineRateLimits()).toMatchObject({ state: "ok", message: "no second process serves" });
  await serve(null);
  const found = await examineRateLimits();
  expect(found).toMatchObject({
    state: "ok",
    message: expect.stringContaining(
      "2 processes count alone: the balancer must send each key to one of them",
    ),
  });
  const { address, database } = target;
  const config = configOf({ CLAVIGER_DATA_DIR: "/nonexistent" });
  const brief = await examineBriefly({ config, clock: systemClock, address, database, place: "here" });
  expect(brief).toContainEqual(found as NonNullable<typeof found>);
});

test("claviger doctor warns if the processes count in different ways", async () => {
  await serve("shared");
  await serve("shared");
  expect(await examineRateLimits()).toMatchObject({
    state: "ok",
    message: "2 processes count the requests of each key together",
  });
  await serve("process");
  expect(await examineRateLimits()).toMatchObject({
    state: "warn",
    remedy: "give all processes the same CLAVIGER_RATE_LIMITS",
  });
});

test("claviger doctor says that the schema is of a newer version that allows this one", async () => {
  const schema = async () => (await examineAll(target))("schema");
  expect((await schema())?.message).toMatch(/^\d+, as this program needs it$/);
  await target.database.query(
    (sql) => sql`
      insert into schema_migrations (number, name, checksum, oldest_program)
      select max(number) + 1, 'next', 'any', max(number) from schema_migrations`,
  );
  expect(await schema()).toMatchObject({
    state: "ok",
    message: expect.stringMatching(/^\d+, of a newer Claviger that allows this one$/),
  });
});
