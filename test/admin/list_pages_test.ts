/** The pages of every list of the console: next and previous, exact also when rows came meanwhile, and their count. */
import { beforeAll, describe, expect, test } from "bun:test";
import { renderPlace } from "../../src/admin/frame/console/components/list.tsx";
import { countRows, MOST_COUNTED } from "../../src/database/mod.ts";
import { KEY_SORTS } from "../../src/licensing/keys/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import type { TestAdmin } from "../support/admin.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { readAll } from "./list_kit.ts";

interface Page {
  readonly caption: string;
  readonly rows: readonly string[];
  readonly links: Readonly<Record<string, string>>;
}

const few = createKit(useAdmin());
const many = createKit(useAdmin());
const { admin, makeRows, follow } = few;

/** Makes and reads the rows of one database. */
function createKit(admin: TestAdmin) {
  const client = createConsoleClient(admin);
  /** The rows of each list that were made: later rows have higher ids. */
  let made = 0;
  let session: Promise<{ readonly cookie: string }> | undefined;

  /** Makes `count` keys with their accounts, licenses, machines, models, use and rows of the audit log. */
  async function makeRows(name: string, count: number): Promise<void> {
    const at = admin.clock.now();
    await admin.database.query(
      (sql) => sql`
      with row as (select n, ${name}::text || '-' || lpad(n::text, 5, '0') as name, lpad(to_hex(${made}::integer + n), 32, '0')::uuid as uuid
                     from generate_series(1, ${count}::integer) as n),
      account as (insert into accounts (id, email, name, created_at)
        select uuid, name || '@example.org', name, ${at}::timestamptz from row),
      license as (insert into licenses (id, account_id, tier, expires_at, created_at)
        select uuid, uuid, case when n % 3 = 0 then 'free' else 'research' end, ${at}::timestamptz + interval '9 days' * (n % 5), ${at}::timestamptz from row),
      key as (insert into keys (id, license_id, hash, hint, mode, created_at)
        select uuid, uuid, sha256(name::bytea), name, 'live', ${at}::timestamptz from row),
      machine as (insert into machines (id, license_id, account_id, fingerprint, activated_at, last_seen_at, active_until)
        select uuid, uuid, uuid, sha256(name::bytea), ${at}::timestamptz, ${at}::timestamptz, 'infinity' from row),
      model as (insert into models (id, name, created_at) select uuid, name, ${at}::timestamptz from row),
      version as (insert into model_versions (id, model_id, version, type, paradigm, n_features, n_classes, size_mb, requires_license, download_url, checksum, created_at)
        select uuid, uuid, '1.0.0', 'cnn', 'p300', 1, 2, 1, 'free', 'https://models.example/m.onnx', repeat('0', 64), ${at}::timestamptz from row),
      used as (insert into usage (license_id, month, used)
        select uuid, date_trunc('month', ${at}::timestamptz at time zone 'UTC'), n from row)
      -- Half of the log is as an older program wrote it.
      insert into audit (at, actor, action, key_id, xid)
      select ${at}::timestamptz, 'command:root', 'key.issue', uuid, case when n > ${count}::integer / 2 then pg_current_xact_id() end from row`,
      { deadlineMs: 20_000 },
    );
    made += count;
  }

  /** Sends a request for a page as an admin. */
  async function send(path: string) {
    session ??= client.logIn("admin");
    return await client.send(path, { cookie: (await session).cookie });
  }

  async function read(path: string): Promise<Page> {
    const { status, text } = await send(path);
    expect({ path, status }).toEqual({ path, status: 200 });
    const [, caption = "", body = ""] =
      /.*<caption>(?:<span[^>]*>)?(.*?)<.*?caption>(.*?)<\/table>/s.exec(text) ?? [];
    const [, nav = ""] = /<nav class="pages"[^>]*>(.*?)<\/nav>/s.exec(text) ?? [];
    const links = [...nav.matchAll(/<a href="\/console([^"]*)">([^<]*)</g)].map(
      ([, href = "", label = ""]) => [label, href.replaceAll("&amp;", "&")],
    );
    // The ids of a row tell it from all others.
    const rows = [...body.matchAll(/<tr>.*?<\/tr>/gs)].map(
      ([row]) => /(?:key|usr|lic|mch)_[0-9a-f]{32}|models\/[\w-]+/.exec(row)?.[0] ?? row,
    );
    return {
      caption,
      rows: rows.slice(rows[0]?.includes("<td") ? 0 : 1),
      links: Object.fromEntries(links),
    };
  }

  /** Follows a link from page to page, to the last one. */
  async function follow(path: string, label: "Next page" | "Previous page"): Promise<Page[]> {
    const pages: Page[] = [];
    for (let at: string | undefined = path; at !== undefined; at = pages.at(-1)?.links[label])
      pages.push(await read(at));
    return pages;
  }

  return { admin, makeRows, send, read, follow };
}

const LISTS = [
  "/keys",
  "/keys?tier=free",
  "/accounts",
  "/accounts?search=early",
  "/accounts?sort=oldest",
  "/machines",
  "/machines?state=active",
  "/machines?sort=oldest&state=active",
  "/models",
  "/models?sort=name",
  "/accounts?sort=email",
  "/audit",
  "/audit?action=key.issue",
  "/usage",
  "/keys?sort=oldest",
  "/keys?sort=soonest_expiry",
  "/keys?sort=latest_expiry&tier=free",
  "/keys?sort=soonest_expiry&search=early",
  "/keys?sort=most_used",
  "/keys?sort=most_used&tier=free",
  "/keys?sort=most_used&search=early",
];

describe("a list of the console", () => {
  const ROWS = 420;
  beforeAll(async () => {
    await makeRows("early", ROWS);
    await computeFigures(admin.database, { clock: admin.clock });
  });

  for (const path of LISTS) {
    test(`${path} has the same pages forwards and backwards, and says which rows they are`, async () => {
      const forwards = await follow(path, "Next page");
      const last = forwards.at(-1);
      const total = forwards.flatMap(({ rows }) => rows).length;
      expect(total).toBeGreaterThanOrEqual(path.includes("tier") ? ROWS / 3 : ROWS);
      expect(new Set(forwards.flatMap(({ rows }) => rows)).size).toBe(total);
      for (const [index, { caption, rows }] of forwards.entries())
        expect(caption).toStartWith(`${index * 50 + 1} to ${index * 50 + rows.length} of ${total} `);
      const backwards = await follow(last?.links["Previous page"] ?? "", "Previous page");
      expect(backwards.map(({ rows }) => rows)).toEqual(
        forwards
          .slice(0, -1)
          .map(({ rows }) => rows)
          .toReversed(),
      );
      expect(backwards.map(({ caption }) => caption)).toEqual(
        forwards
          .slice(0, -1)
          .map(({ caption }) => caption)
          .toReversed(),
      );
      expect(Object.keys(backwards.at(-1)?.links ?? {}).filter((label) => label.endsWith("page"))).toEqual([
        "Next page",
      ]);
    });
  }

  test("shows rows that were added meanwhile on the way back, and leaves out none", async () => {
    const [first, second] = await follow("/accounts", "Next page");
    const rows = Number(/ of ([\d,]+) accounts/.exec(first?.caption ?? "")?.[1]) + 7;
    await makeRows("late", 7);
    const back = await follow(second?.links["Previous page"] ?? "", "Previous page");
    expect(back).toHaveLength(2);
    expect(back[0]?.rows).toEqual(first?.rows ?? []);
    const [, early] = back;
    expect(early?.rows.slice(7)).toEqual(first?.rows.slice(0, 43) ?? []);
    expect(early?.caption).toStartWith(`1 to 50 of ${rows} accounts`);
    expect(back[0]?.caption).toStartWith(`8 to 57 of ${rows} accounts`);
  });

  for (const sort of KEY_SORTS)
    test(`GET /keys?sort=${sort} has the rows of the list of the console, to the end`, async () => {
      const pages = await follow(`/keys?sort=${sort}`, "Next page");
      const listed = await readAll(admin, `/keys?limit=100&sort=${sort}`);
      expect(listed.map(({ id }) => id)).toEqual(pages.flatMap(({ rows }) => rows));
    });

  test("refuses a position whose time no database has, and takes the earliest and the latest other one", async () => {
    const statusAt = async (value: string) => {
      const path = `/keys?sort=soonest_expiry&after=${value}.key_${"0".repeat(32)}`;
      return (await few.send(path)).status;
    };
    expect(await statusAt("-999999999999999999")).toBe(400);
    expect(await statusAt(`-${"9".repeat(17)}`)).toBe(200);
    expect(await statusAt("9".repeat(18))).toBe(200);
  });
});

test("a list says that it has more rows than it counts", async () => {
  await many.makeRows("many", MOST_COUNTED + 1);
  const rows = (most: number) => countRows(many.admin.database, (sql) => sql`select from accounts`, { most });
  expect([
    await rows(10),
    await rows(MOST_COUNTED + 1),
    await rows(MOST_COUNTED),
    await rows(100_000),
  ]).toEqual([11, MOST_COUNTED + 1, MOST_COUNTED + 1, MOST_COUNTED + 1]);
  for (const path of LISTS.filter((path) => !/tier|early|used/.test(path))) {
    const { caption, links } = await many.read(path);
    expect(caption).toStartWith("1 to 50 of more than 10,000 ");
    expect((await many.read(links["Next page"] ?? "")).caption).toStartWith("51 to 100 of more than 10,000 ");
  }
});

test("renderPlace() names the rows of a page in every case", () => {
  const place = (rows: number, total: number | undefined, skipped: number | undefined) =>
    renderPlace("key", { rows: Array.from({ length: rows }), isFirst: skipped === 0, total, skipped });
  expect(place(1, 1, 0)).toBe("1 key");
  expect(place(34, 34, 0)).toBe("34 keys");
  expect(place(50, 1_234, 0)).toBe("1 to 50 of 1,234 keys");
  expect(place(34, 1_234, 1_200)).toBe("1,201 to 1,234 of 1,234 keys");
  // A row came between the two counts.
  expect(place(34, 1_234, 1_201)).toBe("1,202 to 1,235 of 1,235 keys");
  expect(place(50, MOST_COUNTED + 1, 50)).toBe("51 to 100 of more than 10,000 keys");
  expect(place(50, MOST_COUNTED + 1, MOST_COUNTED + 1)).toBe("50 keys behind the first 10,000");
  expect(place(50, undefined, 0)).toBe("50 keys on this page");
});
