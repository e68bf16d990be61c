/** Lists that are longer than a page: they are printed page by page, and look as if they were printed at once. */
import { beforeAll, describe, expect, test } from "bun:test";
import { whileRead } from "../../src/cli/list_options.ts";
import { createPrinter } from "../../src/cli/print.ts";
import { commandsOn } from "../admin/commands_on.ts";
import { createTestClock } from "../support/clock.ts";
import { useForAll, useTestDatabase } from "../support/use.ts";
import { createTestInvocation } from "./command_line.ts";

/** A page of 200 rows, one of 1,000 and some more. */
const MANY = 1_300;

const target = useTestDatabase();
const commands = useForAll(() => commandsOn(target, createTestClock()));
let ids: string[];
beforeAll(async () => {
  const rows = await target.database.query<{ id: string }>(
    (sql) => sql`
      with account as (
        insert into accounts (id, email, name, organization, created_at)
        select gen_random_uuid(), 'a' || n || '@example.org', 'A', '', now()
          from generate_series(1, ${MANY}::bigint) n
        returning id
      ),
      license as (
        insert into licenses (id, account_id, tier, expires_at, created_at)
        select gen_random_uuid(), id, 'research', '2030-01-01', now() from account returning id
      ),
      use as (insert into usage (license_id, month, used) select id, '2026-10-01', 7 from license)
      insert into keys (id, license_id, hash, hint, mode, created_at)
      select gen_random_uuid(), id, sha256(id::text::bytea), 'svc_live_…', 'live', '2026-01-01' from license
      returning 'key_' || replace(id::text, '-', '') as id`,
  );
  ids = rows.map(({ id }) => id).toSorted();
});

const idsOf = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id);

describe("a long list", () => {
  test("has every row once, as one document or as one table", async () => {
    const list = ["keys", "list", "--limit", "5000"];
    expect(idsOf(await commands.json(list))).toEqual(ids);
    expect(idsOf(await commands.json([...list, "--unused-for", "30"]))).toEqual(ids);
    const { out } = await commands.run(list);
    const [heading = "", ...lines] = out.trimEnd().split("\n");
    expect(heading).toStartWith("ID  ");
    expect(lines.map((line) => line.slice(0, 36))).toEqual(ids);
    expect(await commands.json(["accounts", "list", "--limit", "5000"])).toHaveLength(MANY);
    const use = await commands.json(["usage", "export", "--month", "2026-10"]);
    expect(new Set(use.map((row: { license_id: string }) => row.license_id)).size).toBe(MANY);
  });

  test("ends at the limit, and says how to see the further rows", async () => {
    for (const limit of [100, 200, 1_200, MANY - 1]) {
      const { out, err } = await commands.run(["keys", "list", "--json", "--limit", `${limit}`]);
      expect(idsOf(JSON.parse(out))).toEqual(ids.slice(0, limit));
      expect(err).toBe(
        `There are more rows: raise --limit above ${limit}, or show the next rows with --after ${ids[limit - 1]}\n`,
      );
    }
    const rest = ["keys", "list", "--after", ids[MANY - 4] ?? "", "--limit", "3"];
    expect(idsOf(await commands.json(rest))).toEqual(ids.slice(-3));
    expect((await commands.run(rest)).err).toBe("");
    expect((await commands.run(["keys", "list", "--tier", "free"])).out).toBe("none\n");
    expect((await commands.run(["keys", "list", "--tier", "free", "--json"])).out).toBe("[]\n");
  });

  test("that cannot be read to its end makes the command fail, and leaves no whole document", async () => {
    const { database } = target;
    const run = (more: string[] = []) => commands.run(["accounts", "list", "--limit", "5000", ...more]);
    await database.query((sql) => sql`alter table accounts rename to real_accounts`);
    await database.query(
      (sql) => sql`
        create view accounts as
        select id, email, organization, created_at, erasing_since, erased_at, texts_erased_at,
               case when id = (select id from real_accounts order by id offset 1000 limit 1)
                    then (1 / (length(name) - 1))::text else name end as name
          from real_accounts`,
    );
    try {
      const json = await run(["--json"]);
      expect({ status: json.status, err: json.err }).toEqual({
        status: 1,
        err: expect.stringContaining("division by zero"),
      });
      expect(() => JSON.parse(json.out)).toThrow();
      expect(json.out.split('"email"')).toHaveLength(201);
      expect(await run()).toMatchObject({ status: 1 });
    } finally {
      await database.query((sql) => sql`drop view accounts`);
      await database.query((sql) => sql`alter table real_accounts rename to accounts`);
    }
  });
});

describe("whileRead()", () => {
  const call = (more: object) => ({
    invocation: { ...createTestInvocation("/", {}).invocation, ...more },
    stopIfInterrupted: () => {},
  });
  let given = 0;
  async function* parts() {
    for (given = 0; ; ) yield ++given;
  }

  test("asks for no further part after the reader of the output has ended", async () => {
    const outputFault = () => (given === 2 ? new Error("EPIPE") : undefined);
    expect(await Array.fromAsync(whileRead(parts(), call({ outputFault })))).toEqual([1, 2]);
    expect(given).toBe(2);
  });

  test("ends the command between two parts after a signal", async () => {
    const stopIfInterrupted = () => {
      if (given === 3) throw new Error("Stopped by SIGINT");
    };
    await expect(Array.fromAsync(whileRead(parts(), { ...call({}), stopIfInterrupted }))).rejects.toThrow(
      "Stopped by SIGINT",
    );
  });
});

test("rows() aligns each page as the first one, and makes a column wider where a later page needs it", async () => {
  const { invocation, seen } = createTestInvocation("/", {});
  const pages = [[{ name: "a", used: 5 }], [{ name: "longer", used: 12_345 }], [{ name: "c", used: 1 }]];
  const same = (row: { readonly name: string; readonly used: number }) => row;
  await createPrinter(invocation, false).rows(pages, { toCells: same, toJson: same });
  expect(seen.out).toBe("NAME  USED\na        5\nlonger  12345\nc           1\n");
});
