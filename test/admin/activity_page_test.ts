/** The page Activity: hours, days and months of answered requests, and which of them are unusual. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createTestClock } from "../support/clock.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, linkTo, textsOf } from "./texts_of.ts";

const NOW = "2026-11-22T09:30:00Z";

const admin = useAdmin({ clock: createTestClock(NOW) });
const client = createConsoleClient(admin);
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await client.logIn("viewer"));
});

const open = async (path: string) => (await client.send(path, { cookie })).text;

describe("While nothing was counted", () => {
  const empty = createConsoleClient(useAdmin({ clock: createTestClock(NOW) }));

  test("says when a request appears", async () => {
    const { text } = await empty.send("/activity", { cookie: (await empty.logIn("viewer")).cookie });
    expect(text).toContain("appears about a minute after its answer");
  });
});

describe("After ten weeks with a storm of refusals", () => {
  beforeAll(async () => {
    await admin.database.query(
      (sql) => sql`
        insert into activity_hours (hour, endpoint, code, reason, count)
        select hour, answer.endpoint, answer.code, answer.reason,
               1 + (answer.count * (2 + sin(extract(epoch from hour) / 86400 * 2 * pi())))::bigint
          from generate_series('2026-09-10T00:00Z'::timestamptz, '2026-11-22T09:00Z', '1 hour') as hour,
               (values ('validate', 'OK', '', 4000), ('analytics', 'OK', '', 2500), ('models', 'OK', '', 80),
                       ('validate', 'INVALID_KEY', 'unknown', 12), ('validate', 'INVALID_KEY', 'suspended', 3),
                       ('validate', 'KEY_EXPIRED', 'expired', 9), ('analytics', 'QUOTA_EXCEEDED', '', 15),
                       ('validate', 'RATE_LIMIT_EXCEEDED', '', 6), ('other', 'NOT_FOUND', '', 20),
                       ('license', 'LICENSE_REQUIRED', '', 2), ('downloads', 'OK', '', 11),
                       ('repo_token', 'NOT_CONFIGURED', '', 1), ('refresh', 'OK', '', 60))
                 as answer (endpoint, code, reason, count)`,
    );
    await admin.database.query(
      (sql) => sql`
        update activity_hours set count = count + 1000
         where hour = '2026-11-22T09:00Z' and code = 'INVALID_KEY' and reason = 'unknown'`,
    );
    await admin.database.query(
      (sql) =>
        sql`delete from activity_hours where hour = '2026-11-22T03:00Z' and endpoint = 'validate' and code = 'OK'`,
    );
    await admin.database.query(
      (sql) => sql`
        insert into activity_days
        select (hour at time zone 'UTC')::date, endpoint, code, reason, sum(count) from activity_hours group by 1, 2, 3, 4`,
    );
  });

  test("shows the hours by cause, and marks the unusual ones with a shape and a word", async () => {
    const text = await open("/activity");
    expect(textsOf(text, ".unusual tbody tr")).toEqual([
      expect.stringMatching(
        /^2026-11-22 09:00 unknown, suspended or revoked keyINVALID_KEY 1,04\d high 4\d Activity by reason$/,
      ),
      expect.stringMatching(/^2026-11-22 03:00 without an errorOK [\d,]+ low [\d,]+$/),
    ]);
    const titles = textsOf(text, ".values b");
    expect(titles).toHaveLength(2 * 24);
    expect(titles.filter((title) => title.includes("unusually"))).toEqual([
      expect.stringMatching(
        /^11-22 03:00 without an error: [\d,]+ is unusually low, [\d,]+ on the days before /,
      ),
      expect.stringMatching(
        /^11-22 09:00, not over unknown, suspended or revoked key: 1,04\d is unusually high, 4\d on the days before /,
      ),
    ]);
    const [up, down] = ["M-5 -3h10l-5 -9z", "M-5 -12h10l-5 9z"];
    expect(attributesOf(text, ".unusual .mark", "d")).toEqual([up, down]);
    expect(attributesOf(text, ".plot .mark", "d")).toEqual([down, up]);
    expect(Buffer.byteLength(text)).toBeLessThan(150_000);
  });

  test("every count on the page equals the count in the database", async () => {
    const shown = textsOf(await open("/activity?by=reason&step=day"), ".numbers tbody tr");
    const stored = await admin.database.query<{ row: string }>(
      (sql) => sql`
        select concat_ws(' ', day, to_char(unknown, 'FM999,999'), to_char(expired, 'FM999,999'),
                         to_char(suspended, 'FM999,999'), to_char(unknown + expired + suspended, 'FM999,999')) as row
          from (select to_char(hour at time zone 'UTC', 'YYYY-MM-DD') as day,
                       sum(count) filter (where reason = 'unknown') as unknown,
                       sum(count) filter (where reason = 'expired') as expired,
                       sum(count) filter (where reason = 'suspended') as suspended
                  from activity_hours where reason <> '' group by 1) as days
         order by day desc limit 30`,
    );
    expect(shown).toEqual(
      stored.map(({ row }, index) => (index === 0 ? row.replace(" ", ", not over ") : row)),
    );
  });

  test("shows endpoints, the time before, and months", async () => {
    const text = await open("/activity?by=endpoint");
    expect(textsOf(text, "main figcaption")[0]).toContain("Answers, by request");
    expect(textsOf(text, ".legend li")).toEqual([
      ...[
        "checks of keys",
        "events",
        "lists of models",
        "refreshed licenses",
        "other",
        "all others",
        "not over",
      ],
    ]);
    const earlier = await open(linkTo(text, "Earlier"));
    expect(attributesOf(earlier, "#by option[selected]", "value")).toEqual(["endpoint"]);
    const titles = textsOf(earlier, ".values b").map((title) => title.slice(0, 11));
    expect([titles.length, titles[0], titles[23]]).toEqual([24, "11-20 10:00", "11-21 09:00"]);
    const later = await open(linkTo(earlier, "Later"));
    expect(textsOf(later, ".values b")[23]).toStartWith("11-22 09:00");
    const months = await open("/activity?by=endpoint&step=month");
    expect(textsOf(months, ".values b").at(-1)).toStartWith("2026-11, not over ");
  });

  test("names the first and the last day that it shows, and the time before ends on the day before", async () => {
    const daysIn = (text: string) => textsOf(text, "#rows")[0]?.match(/\d{4}-\d\d-\d\d/g) ?? [];
    const text = await open("/activity?step=day");
    const [first = ""] = daysIn(text);
    const [, last = ""] = daysIn(await open(linkTo(text, "Earlier")));
    expect(Date.parse(first) - Date.parse(last)).toBe(86_400_000);
  });
});
