/** The counts of answered requests, in a real browser. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createTestClock } from "../support/clock.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole } from "./support/console.ts";

const admin = useForAll(() => startConsole({ clock: createTestClock("2026-11-22T09:30:00Z") }));

test("The page is accessible while nothing was counted", async () => {
  await admin.visitAs("viewer", { path: "/activity" }, async (page) => {
    await page.getByText("appears about a minute after its answer").waitFor();
    await takeScreenshots(page, "activity-empty");
    await expectAccessible(page);
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

  test("shows the hours by code, and marks the unusual ones with a shape and a word", async () => {
    await admin.visitAs("viewer", { path: "/activity" }, async (page) => {
      const rows = page.getByRole("table", { name: "Unusual hours, the latest first" }).locator("tbody tr");
      const texts = (await rows.allInnerTexts()).map((text) => text.replace(/\s+/g, " "));
      expect(texts).toEqual([
        expect.stringMatching(/^2026-11-22 09:00 INVALID_KEY 1,04\d high 4\d Activity by reason$/),
        expect.stringMatching(/^2026-11-22 03:00 OK [\d,]+ low [\d,]+ ?$/),
      ]);
      const titles = await page.locator(".values b").allTextContents();
      expect(titles).toHaveLength(2 * 24);
      expect(titles.filter((title) => title.includes("unusually"))).toEqual([
        expect.stringMatching(/^11-22 03:00\nOK [\d,]+ is unusually low, [\d,]+ on the days before\n/),
        expect.stringMatching(/^11-22 09:00\nINVALID_KEY 1,04\d is unusually high, 4\d on the days before\n/),
      ]);
      const shapes = await page
        .locator(".plot .mark, .marked .mark")
        .evaluateAll((marks) =>
          marks.map((mark) => `${mark.closest("table, .plot")?.tagName} ${mark.getAttribute("d")}`),
        );
      const [up, down] = ["M-5 -3h10l-5 -9z", "M-5 -12h10l-5 9z"];
      expect(shapes.filter((shape) => shape.startsWith("DIV"))).toEqual([`DIV ${down}`, `DIV ${up}`]);
      expect(shapes.slice(0, 2)).toEqual([`TABLE ${up}`, `TABLE ${down}`]);
      expect((await page.content()).length).toBeLessThan(150_000);
      await takeScreenshots(page, "activity-hours");
      await expectAccessible(page);
    });
  });

  test("every count on the page equals the count in the database", async () => {
    await admin.visitAs("viewer", { path: "/activity?by=reason&step=day" }, async (page) => {
      for (const summary of await page.getByText("Numbers").all()) await summary.click();
      const shown = await page.locator(".numbers tbody tr").allInnerTexts();
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
      expect(shown.map((text) => text.replace(/\s+/g, " "))).toEqual(stored.map(({ row }) => row));
      await takeScreenshots(page, "activity-days");
      await expectAccessible(page);
    });
  });

  test("shows endpoints, months, and the time before, without script", async () => {
    await admin.visitAs("viewer", { path: "/activity", script: false }, async (page) => {
      await page.getByLabel("By", { exact: true }).selectOption("endpoint");
      await page.getByRole("button", { name: "Show" }).click();
      await page.getByText("Answers, by endpoint").first().waitFor();
      expect(await page.locator(".legend li").allInnerTexts()).toEqual([
        ...["validate", "analytics", "models", "refresh", "other", "all others"],
      ]);
      await takeScreenshots(page, "activity-endpoints");
      await page.getByRole("link", { name: "Earlier" }).click();
      await page.getByRole("link", { name: "Later" }).waitFor();
      expect(await page.getByLabel("By", { exact: true }).inputValue()).toBe("endpoint");
      const titles = await page.locator(".values b").allTextContents();
      expect([titles.length, titles[0]?.slice(0, 11), titles[23]?.slice(0, 11)]).toEqual([
        ...[24, "11-20 10:00", "11-21 09:00"],
      ]);
      await page.getByRole("link", { name: "Later" }).click();
      expect((await page.locator(".values b").allTextContents())[23]).toStartWith("11-22 09:00");
      await page.getByLabel("For each").selectOption("month");
      await page.getByRole("button", { name: "Show" }).click();
      await page.getByText("Answers, by endpoint").first().waitFor();
      await takeScreenshots(page, "activity-months");
    });
  });
});
