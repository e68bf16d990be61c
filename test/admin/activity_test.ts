/** `GET /activity` and the command `activity` give the same counts, which are those of the table. */
import { beforeAll, describe, expect, test } from "bun:test";
import { addActivity } from "../../src/usage/activity/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";

const clock = createTestClock("2026-11-22T09:30:00Z");
const admin = useAdmin({ clock });
const commands = useForAll(() => commandsOn(admin.testDatabase, clock));
let token: string | undefined;

beforeAll(async () => {
  const add = (hour: string, endpoint: string, [code, reason]: readonly [string, string], count: number) =>
    addActivity(admin.database, [{ hourMs: Date.parse(hour), endpoint, code, reason, count }]);
  await add("2026-11-21T09:00Z", "validate", ["OK", ""], 80);
  await add("2026-11-21T10:00Z", "validate", ["OK", ""], 40);
  await add("2026-11-22T08:00Z", "validate", ["OK", ""], 20);
  await add("2026-11-22T09:00Z", "models", ["OK", ""], 3);
  await add("2026-11-22T09:00Z", "validate", ["INVALID_KEY", "revoked"], 5);
});

async function call(query: string) {
  token ??= await admin.token({ scopes: ["status:read"] });
  return await admin.call("GET", `/activity${query}`, { token });
}

describe("GET /activity", () => {
  test("counts the last 24 hours by code, as the command does", async () => {
    const { body } = await call("");
    expect(body).toEqual({
      from: "2026-11-21T10:00:00Z",
      to: expect.stringMatching(/^2026-11-22T09:3/),
      by: "code",
      step: "hour",
      data: [
        { at: "2026-11-21T10:00:00Z", code: "OK", http_requests: 40 },
        { at: "2026-11-22T08:00:00Z", code: "OK", http_requests: 20 },
        { at: "2026-11-22T09:00:00Z", code: "INVALID_KEY", http_requests: 5 },
        { at: "2026-11-22T09:00:00Z", code: "OK", http_requests: 3 },
      ],
    });
    const printed = await commands.json(["activity", "--to", body.to]);
    expect(printed).toEqual(body);
  });

  test("counts days and months by endpoint or reason", async () => {
    const read = async (query: string) => (await call(`?${query}`)).body.data;
    expect(await read("by=endpoint&step=day&from=2026-11-21&to=2026-11-23")).toEqual([
      { at: "2026-11-21T00:00:00Z", endpoint: "validate", http_requests: 120 },
      { at: "2026-11-22T00:00:00Z", endpoint: "models", http_requests: 3 },
      { at: "2026-11-22T00:00:00Z", endpoint: "validate", http_requests: 25 },
    ]);
    expect(await read("by=reason&step=month")).toEqual([
      { at: "2026-11-01T00:00:00Z", reason: "revoked", http_requests: 5 },
    ]);
  });
});

describe("claviger activity", () => {
  const args = ["activity", "--from", "2026-11-22", "--to", "2026-11-23"];
  const table = [
    "AT                    CODE         HTTP REQUESTS",
    "2026-11-22T08:00:00Z  OK                      20",
    "2026-11-22T09:00:00Z  INVALID_KEY              5",
    "2026-11-22T09:00:00Z  OK                       3",
  ];

  test("prints a table; on a terminal of 80 columns with bars", async () => {
    const plain = await commands.run(args);
    expect(plain.out).toBe(`${table.join("\n")}\n`);
    const { out } = await commands.run(args, { columns: 80 });
    const bars = ["CHART", "█".repeat(30), "███████▌", "████▌"];
    expect(out).toBe(`${table.map((line, index) => `${line}  ${bars[index]}`).join("\n")}\n`);
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  test("says that there is nothing, and refuses a span that is too long", async () => {
    expect((await commands.run(["activity", "--to", "2020-01-01"])).out).toBe("none\n");
    const refused = await commands.run(["activity", "--from", "2020-01-01"]);
    expect([refused.status, refused.err]).toEqual([
      1,
      "claviger: Cannot show activity: by hour the span is at most 31 days; choose a longer step\n",
    ]);
  });
});
