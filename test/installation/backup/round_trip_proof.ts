/** A restored database has the same content as the database that was backed up. */
import { beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Migration, migrate, migrations } from "../../../src/database/mod.ts";
import { TIERS } from "../../../src/licensing/mod.ts";
import { ensureSigningKeys } from "../../../src/licensing/signed_licenses/mod.ts";
import { modelsFolderOf, pathOfFile } from "../../../src/models/mod.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { NOW, sentenceOf } from "../../support/issue.ts";
import { openSecrets, TEST_SECRET } from "../../support/secrets.ts";
import { useTestDatabase } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import {
  backUp,
  dump,
  fill,
  MODEL_BYTES,
  otherSecret,
  prove,
  restore,
  tryBackup,
  tryRestore,
} from "./backup_kit.ts";

const folder = useFolder();
const file = (name: string) => join(folder, name);
const source = useTestDatabase();

beforeAll(async () => {
  await fill(source.database);
  await backUp(source.address, file("whole"));
});

describe("writeBackup() and restoreBackup()", () => {
  test("transfer every row of every table", async () => {
    const before = await dump(source.database);
    const { head, sums } = await backUp(source.address, file("every"));
    // A table that was added later needs rows in `fill`.
    expect(sums.tables.filter(({ rows }) => rows === 0)).toEqual([]);
    expect(head.tables.map(({ name }) => name).sort()).toEqual(Object.keys(before));

    await using target = await createTestDatabase({ empty: true });
    await restore(target.address, file("every"));
    expect(await dump(target.database)).toEqual(before);
  });

  test("write the same rows as the same bytes on another server", async () => {
    await using target = await createTestDatabase({ empty: true });
    await restore(target.address, file("whole"));
    const again = await backUp(target.address, file("again"));
    const { sums } = await prove(file("whole"));
    const withoutAudit = ({ tables }: typeof sums) => tables.filter(({ name }) => name !== "audit");
    expect(withoutAudit(again.sums)).toEqual(withoutAudit(sums));
  });

  test("leave out transaction ids, continue sequences, and keep the guards of the tables", async () => {
    await using target = await createTestDatabase({ empty: true });
    await restore(target.address, file("whole"));
    // The restore wrote all rows in one transaction; in the source, each row had its own transaction.
    const [row] = await target.database.query<{ writers: number }>(
      (sql) => sql`select count(distinct changed_xid) as writers from keys`,
    );
    expect(row?.writers).toBe(1);
    const [note] = await target.database.query(
      (sql) => sql`select id, actor, after from audit order by id desc limit 1`,
    );
    const [highest] = await source.database.query<{ id: number }>(
      (sql) => sql`select max(id) as id from audit`,
    );
    expect(note).toMatchObject({ id: (highest?.id ?? 0) + 1, actor: "command:tester" });
    await expect(target.database.query((sql) => sql`delete from audit`)).rejects.toThrow("only grows");
    await expect(target.database.query((sql) => sql`delete from keys`)).rejects.toThrow("never deleted");
  });

  test("put events into the partition of their month", async () => {
    await using target = await createTestDatabase({ empty: true });
    await restore(target.address, file("whole"));
    const rows = await target.database.query<{ name: string; events: number }>(
      (sql) => sql`
        select tableoid::regclass::text as name, count(*) as events from events group by 1 order by 1`,
    );
    expect(rows.map(({ name }) => name)).toEqual([
      "events_2026_09",
      "events_2026_10",
      "events_2026_11",
      "events_2031_01",
    ]);
  });

  test("load rows without running a trigger on insert, and leave the trigger enabled", async () => {
    const trigger: Migration = {
      number: migrations.length + 1,
      name: "trigger",
      text: `create function double_name() returns trigger language plpgsql as
             $$ begin new.name := new.name || new.name; return new; end $$;
             create trigger double_name before insert on accounts
               for each row execute function double_name();`,
    };
    const withTrigger = [...migrations, trigger];
    await using target = await createTestDatabase({ empty: true });
    await using stamped = await createTestDatabase({ empty: true });
    await restore(target.address, file("whole"), { migrations: withTrigger });
    await backUp(target.address, file("trigger"), { migrations: withTrigger });
    await restore(stamped.address, file("trigger"), { migrations: withTrigger });
    expect((await dump(stamped.database)).accounts).toEqual((await dump(source.database)).accounts ?? []);
    const enabled = await stamped.database.query(
      (sql) => sql`select tgenabled from pg_trigger where tgname = 'double_name'`,
    );
    expect(enabled.map((row) => ({ ...row }))).toEqual([{ tgenabled: "O" }]);
  });

  test("transfer model files, each under its SHA-256", async () => {
    const from = { dataDir: file("models-from") };
    const path = pathOfFile(
      modelsFolderOf(from),
      "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
    );
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, MODEL_BYTES);
    await backUp(source.address, file("models"), { models: from });

    await using target = await createTestDatabase({ empty: true });
    const dataDir = file("models-to");
    await restore(target.address, file("models"), { models: { dataDir } });
    const restored = pathOfFile(
      join(dataDir, "models"),
      "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
    );
    expect(readFileSync(restored)).toEqual(MODEL_BYTES);
    expect(readdirSync(join(dataDir, "models"))).toEqual(["58"]);
  });

  test("transfer the secret only if asked, and refuse a secret that does not fit", async () => {
    await backUp(source.address, file("secret"), { secret: `${TEST_SECRET}\n` });
    expect((await prove(file("secret"))).secret).toBe(TEST_SECRET);
    expect((await prove(file("whole"))).secret).toBeUndefined();
    const wrong = await tryBackup(source.address, file("wrong"), { secret: otherSecret() });
    expect(sentenceOf(wrong)).toContain("another secret sealed the database");
  });
});

describe("a backup's file", () => {
  test("is readable only by its owner, and replaces an existing file only if asked", async () => {
    await backUp(source.address, file("kept"));
    expect(statSync(file("kept")).mode & 0o777).toBe(0o600);
    const before = readFileSync(file("kept"));
    expect(sentenceOf(await tryBackup(source.address, file("kept")))).toContain("replace it with --force");
    expect(readFileSync(file("kept"))).toEqual(before);
    await backUp(source.address, file("kept"), { replace: true, now: new Date(0) });
    expect(readFileSync(file("kept"))).not.toEqual(before);
  });

  test("does not exist, not even in part, after the backup was interrupted", async () => {
    const watch = {
      onProgress({ what }: { what: string }) {
        if (what === "keys") throw new Error("Stopped");
      },
    };
    await expect(tryBackup(source.address, file("stopped"), { watch })).rejects.toThrow("Stopped");
    expect(readdirSync(folder).filter((name) => name.startsWith("stopped"))).toEqual([]);
  });

  test("can be read by tar without this program, and has the columns that it names", async () => {
    mkdirSync(file("by-hand"));
    const unpack = Bun.spawnSync(["tar", "--zstd", "-xf", file("whole"), "-C", file("by-hand")]);
    expect(unpack.stderr.toString()).toBe("");
    const { tables } = JSON.parse(readFileSync(join(file("by-hand"), "backup.json"), "utf8"));
    const { columns } = tables.find(({ name }: { name: string }) => name === "accounts");
    const rows = readFileSync(join(file("by-hand"), "tables/accounts/000001.copy"), "utf8").split("\n");
    expect(rows[0]?.split("\t")).toHaveLength(columns.length);
    expect(rows.at(-1)).toBe("");
  });
});

describe("restoreBackup()", () => {
  const older = migrations.slice(0, -1);

  test("migrates a backup of an older schema to the newest schema", async () => {
    await using old = await createTestDatabase({ empty: true });
    await migrate(old.address, older);
    await old.database.query(
      (sql) => sql`
        insert into accounts (id, email, name, created_at)
        values (gen_random_uuid(), 'old@example.org', 'Old', '2020-01-01T00:00:00Z')`,
    );
    await old.database.query(
      (sql) => sql`
        insert into events (id, received_at, key_id, license_id, event_type, success)
        values (gen_random_uuid(), '2020-01-31T12:00:00Z', gen_random_uuid(), gen_random_uuid(), 'error',
                false)`,
    );
    // The first backup is as the older program writes it, the second as this program writes it before it migrates.
    await backUp(old.address, file("then"), { migrations: older });
    await backUp(old.address, file("now"));
    const before = await dump(old.database);
    for (const name of ["then", "now"]) {
      const { head } = await prove(file(name));
      expect(head.migrations).toHaveLength(older.length);
      await using target = await createTestDatabase({ empty: true });
      await restore(target.address, file(name));
      const after = await dump(target.database);
      // The newest schema may have columns that the older one lacks.
      const rowsOf = (texts: readonly string[] = []) => texts.map((text) => JSON.parse(text));
      for (const table of ["accounts", "events"])
        expect(rowsOf(after[table])).toMatchObject(rowsOf(before[table]));
      const [row] = await target.database.query<{ applied: number }>(
        (sql) => sql`select count(*) as applied from schema_migrations`,
      );
      expect(row?.applied).toBe(migrations.length);
    }
  });

  test("refuses an empty database with a newer schema than the backup, and accepts an older schema", async () => {
    await using old = await createTestDatabase({ empty: true });
    await migrate(old.address, older);
    await backUp(old.address, file("older"), { migrations: older });
    await using further = await createTestDatabase();
    const refused = await tryRestore(further.address, await prove(file("older")));
    expect(sentenceOf(refused)).toContain(`has schema ${migrations.length} already, and the backup has`);
    await restore(further.address, file("whole"));
    await using less = await createTestDatabase({ empty: true });
    await migrate(less.address, migrations.slice(0, 2));
    await restore(less.address, file("whole"));
  });

  test("refuses a database that has a row in any table, or a relation that is not ours", async () => {
    const proven = await prove(file("whole"));
    const statements = [
      "insert into audit (at, actor, action) values (now(), 'a', 'b')",
      "insert into usage_changes (writer, month, license_ids, used) " +
        "values (gen_random_uuid(), now(), '{}', '{}')",
      "create table strange as select 1 as one",
    ];
    for (const [index, statement] of statements.entries()) {
      await using target = await createTestDatabase();
      await target.database.query((sql) => sql.unsafe(statement));
      const table = ["audit", "usage_changes", "strange"][index];
      expect(sentenceOf(await tryRestore(target.address, proven))).toStartWith(
        `Cannot restore: the database in the test is not empty (${table} has rows); give an empty one`,
      );
    }
    await using foreign = await createTestDatabase({ empty: true });
    await foreign.database.query((sql) => sql`create view strange as select 1 as one`);
    expect(sentenceOf(await tryRestore(foreign.address, proven))).toContain("which is not Claviger's");
    expect(await relations(foreign)).toEqual(["strange"]);
  });

  test("changes nothing if it is interrupted at its end", async () => {
    await using target = await createTestDatabase({ empty: true });
    const proven = await prove(file("whole"));
    const beforeCommit = () => {
      throw new Error("Stopped");
    };
    await expect(tryRestore(target.address, proven, { beforeCommit })).rejects.toThrow("Stopped");
    const { tiers, ...others } = await dump(target.database);
    expect(tiers).toHaveLength(TIERS.length);
    for (const tier of tiers ?? []) expect(JSON.parse(tier)).toMatchObject({ entitlements: {} });
    expect(Object.values(others).flat()).toEqual([]);
    await restore(target.address, file("whole"));
  });

  test("reads the loaded rows back, and rolls back if they differ from the backup", async () => {
    const meddling: Migration = {
      number: migrations.length + 1,
      name: "meddling",
      // An unexpected trigger that the restore does not disable, and that changes the stored rows: it runs when the
      // other triggers are enabled again.
      text: `create function meddle() returns event_trigger language plpgsql as
             $$ begin update accounts set name = concat(name, '!'); end $$;
             create event trigger meddle on ddl_command_end when tag in ('ALTER TABLE') execute function meddle();`,
    };
    await using target = await createTestDatabase({ empty: true });
    const meddled = [...migrations, meddling];
    await using other = await createTestDatabase({ empty: true });
    await restore(other.address, file("whole"), { migrations: meddled });
    await backUp(other.address, file("meddled"), { migrations: meddled });
    await expect(
      tryRestore(target.address, await prove(file("meddled")), { migrations: meddled }),
    ).rejects.toThrow("the loaded rows of accounts differ from the backup");
    expect((await dump(target.database)).accounts).toEqual([]);
  });

  test("can leave out the rows that a lost secret sealed", async () => {
    await using target = await createTestDatabase({ empty: true });
    await restore(target.address, file("whole"), { withoutSealed: true });
    const dumped = await dump(target.database);
    expect(dumped.installer_token).toEqual([]);
    expect(dumped.secret_canary).toEqual([]);
    expect(dumped.signing_keys).toEqual([]);
    expect(dumped.keys).toEqual((await dump(source.database)).keys ?? []);

    // Clients may have pinned the keys that were left out before the first license was signed.
    await target.database.query(
      (sql) => sql`with fetched as (delete from signed_licenses) delete from exported_licenses`,
    );
    const made = await ensureSigningKeys(target.database, { secrets: openSecrets(), now: NOW });
    expect(made).toEqual({ isMade: true, replacesEarlier: true });
  });
});

test("a backup waits while another session locks a table", async () => {
  await inTransaction(source.address, async (sql) => {
    await sql`lock table keys in access exclusive mode`;
    const waiting = tryBackup(source.address, file("locked"));
    // The file would appear within this time, and must not.
    await Bun.sleep(300);
    expect(readdirSync(folder)).not.toContain("locked");
    await sql`rollback`;
    await sql`begin`;
    const outcome = await waiting;
    if ("sentence" in outcome) throw new Error(outcome.sentence);
  });
});

test("a backup and a restore are refused while another process locks a table for long", async () => {
  await using target = await createTestDatabase();
  await backUp(source.address, file("unlocked"));
  const proven = await prove(file("unlocked"));
  const options = { lockWaitMs: 1 };
  for (const [{ address }, mode, work] of [
    [source, "access exclusive", () => tryBackup(source.address, file("refused"), options)],
    [target, "access share", () => tryRestore(target.address, proven, options)],
  ] as const) {
    await inTransaction(address, async (sql) => {
      await sql.unsafe(`lock table keys in ${mode} mode`);
      expect(await work()).toMatchObject({
        sentence: expect.stringMatching(
          /^Cannot (back up|restore): another process is changing the tables; try again when it is done$/,
        ),
      });
    });
  }
});

async function relations({ database }: TestDatabase): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    (sql) => sql`
      select relname as name from pg_class
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v')`,
  );
  return rows.map(({ name }) => name);
}
