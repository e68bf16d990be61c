/** A database that answers but refuses writes, as a database with a full disk does. */
import { expect, test } from "bun:test";
import { tmpdir } from "node:os";
import { expectRefusal } from "../support/answers.ts";
import { createTestClock } from "../support/clock.ts";
import { call, ENDPOINTS } from "../support/endpoints.ts";
import { parseExposition } from "../support/exposition.ts";
import { ON_NODE, startTestService } from "../support/service.ts";
import { until } from "../support/until.ts";

const REASON = 'could not extend file "base/5/1": No space left on device';

test
  .skipIf(ON_NODE)
  .concurrent(
    "Refused writes and their end are each one line and a metric, and the service stays healthy",
    async () => {
      const clock = createTestClock();
      await using service = await startTestService({
        clock,
        config: { metricsListen: { host: "127.0.0.1", port: 0 }, dataDir: tmpdir() },
      });
      const gauge = async (name: string) => {
        const response = await fetch(`http://127.0.0.1:${service.service.metrics?.port}/metrics`);
        return parseExposition(await response.text())
          .get(name)
          ?.samples.get(`${name}{}`);
      };
      const lines = (part: string) => service.logLines.filter((line) => line.includes(part));
      const run = (text: string) => service.database.query((sql) => sql.unsafe(text));
      const { apiKey } = await service.issue();
      expect((await call(service, ENDPOINTS.analyticsLog, apiKey)).status).toBe(202);
      expect(await gauge("claviger_database_writable")).toBe(1);
      expect(await gauge("claviger_disk_free_bytes")).toBeGreaterThan(0);

      await run(`create function full_disk() returns trigger language plpgsql as $$
    begin raise exception '${REASON}' using errcode = 'disk_full'; end $$`);
      for (const table of ["usage", "usage_changes", "events"]) {
        await run(
          `create trigger full_disk before insert or update on ${table} execute function full_disk()`,
        );
      }
      for (let i = 0; i < 3; i++) {
        expectRefusal(await call(service, ENDPOINTS.analyticsLog, apiKey), 503, "SERVICE_UNAVAILABLE");
      }
      expect((await service.get("/api/health")).status).toBe(200);
      expect((await call(service, ENDPOINTS.validate, apiKey)).status).toBe(200);
      expect(await gauge("claviger_database_writable")).toBe(0);
      // Without refused writes the fault would count as over after less time. The trial writes are refused.
      await service.advance(6_000);
      // Time for a line that must not come: the trials go by real time.
      await Bun.sleep(1_300);
      expect(lines("The database refuses writes").map((line) => JSON.parse(line))).toEqual([
        expect.objectContaining({ level: "error", reason: REASON, code: "53100" }),
      ]);
      expect(lines("takes writes again")).toEqual([]);

      for (const table of ["usage", "usage_changes", "events"])
        await run(`drop trigger full_disk on ${table}`);
      await service.advance(6_000);
      await until(() => lines("The database takes writes again").length === 1);
      expect(await gauge("claviger_database_writable")).toBe(1);
      expect((await call(service, ENDPOINTS.analyticsLog, apiKey)).status).toBe(202);
      expect(lines("The database refuses writes")).toHaveLength(1);
    },
  );

test
  .skipIf(ON_NODE)
  .concurrent(
    "Writes still count as refused while only small writes fit into the existing pages",
    async () => {
      const clock = createTestClock();
      await using service = await startTestService({ clock });
      const lines = (part: string) => service.logLines.filter((line) => line.includes(part));
      const run = (text: string) => service.database.query((sql) => sql.unsafe(text));
      const [{ name } = { name: "" }] = await service.database.query<{ name: string }>(
        (sql) => sql`select current_database() as name`,
      );
      const { apiKey } = await service.issue();
      await run(`create function full_disk() returns trigger language plpgsql as $$
    begin raise exception '${REASON}' using errcode = 'disk_full'; end $$`);
      await run("create trigger full_disk before insert on events execute function full_disk()");
      // In place of a full disk: the function with which the trial fills its temporary file finds no space.
      await run("create schema full_disk");
      await run(`create function full_disk.repeat(text, int) returns text language plpgsql as $$
    begin raise exception '${REASON}' using errcode = 'disk_full'; end $$`);
      await run(`alter database ${name} set search_path = full_disk, pg_catalog, public`);
      const reconnect = () =>
        run(
          "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()",
        );
      await reconnect();
      await until(async () => {
        await service.advance(0);
        await call(service, ENDPOINTS.analyticsLog, apiKey);
        return lines("The database refuses writes").length === 1;
      });
      await service.advance(6_000);
      // Time for a line that must not come: the trials go by real time.
      await Bun.sleep(1_300);
      expect(lines("takes writes again")).toEqual([]);

      await run(`alter database ${name} reset search_path`);
      await reconnect();
      await until(() => lines("The database takes writes again").length === 1);
    },
  );
