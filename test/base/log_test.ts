import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { createLog, type LogFormat, silentLog } from "../../src/base/log.ts";
import { createTestClock } from "../support/clock.ts";

function collect(format: LogFormat) {
  const lines: string[] = [];
  const clock = { ...createTestClock(), nowMs: () => Date.parse("2026-11-20T10:00:00.123Z") };
  return { lines, log: createLog({ format, clock, write: (line) => void lines.push(line) }) };
}

/** Texts that an attacker may write into a name, a path or an error. */
const forgeries = [
  "x\n2026-11-20T10:00:00.000Z info  All is well",
  "x\r\ny",
  "x\u2028y\u2029z",
  "x\u0085y",
  "\u001b[2Jgone",
  "\u009b31m",
  "a\u0000b\u007f",
  "\u202egnorw",
  'a" b="c',
];

describe("createLog() as text", () => {
  test("writes time, level, message and fields on one line", () => {
    const { lines, log } = collect("text");
    log.info("Applied a migration", {
      name: "0001_licensing",
      ms: 1.5,
      ok: true,
      none: null,
      left: undefined,
    });
    log.warn("Slow");
    expect(lines).toEqual([
      "2026-11-20T10:00:00.123Z info  Applied a migration name=0001_licensing ms=1.5 ok=true none=null\n",
      "2026-11-20T10:00:00.123Z warn  Slow\n",
    ]);
  });

  test.each(forgeries)("writes one line of printable text for %p", (text) => {
    const { lines, log } = collect("text");
    log.error(text, { value: text });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toEndWith("\n");
    expect(lines[0]!.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e]/u);
  });

  test("quotes a value with a space, so that it cannot look like another field", () => {
    const { lines, log } = collect("text");
    log.info("request", { path: "/a b=c" });
    expect(lines[0]).toEndWith(' path="/a b=c"\n');
  });
});

describe("createLog() as JSON", () => {
  test("writes one object on each line", () => {
    const { lines, log } = collect("json");
    log.info("Stopping", { signal: "SIGTERM" });
    expect(lines).toEqual([
      '{"time":"2026-11-20T10:00:00.123Z","level":"info","message":"Stopping","signal":"SIGTERM"}\n',
    ]);
  });

  test.each(forgeries)("writes one line from which %p can be parsed", (text) => {
    const { lines, log } = collect("json");
    log.error(text, { value: text });
    expect(lines[0]!.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e]/u);
    expect(JSON.parse(lines[0]!)).toMatchObject({ message: text, value: text });
  });

  test("keeps its own members, even if fields have the same names", () => {
    const { lines, log } = collect("json");
    log.error("Real", { level: "info", message: "Forged", time: "never" });
    expect(JSON.parse(lines[0]!)).toMatchObject({ level: "error", message: "Real" });
  });
});

describe("createLog() with gathering", () => {
  function collectGathered() {
    const writes: string[] = [];
    const clock = createTestClock();
    const write = (lines: string) => void writes.push(lines);
    return { writes, log: createLog({ format: "json", clock, write, gathers: true }) };
  }
  const messagesOf = (lines = "") =>
    lines
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line).message);

  test("writes the first line at once, and the others together after a twentieth of a second", async () => {
    const { writes, log } = collectGathered();
    for (const message of ["one", "two", "three"]) log.info(message);
    expect(writes.map(messagesOf)).toEqual([["one"]]);
    // The pause is longer than a twentieth of a second, because the log uses real time.
    await Bun.sleep(100);
    expect(writes.map(messagesOf)).toEqual([["one"], ["two", "three"]]);
    log.info("four");
    expect(writes.map(messagesOf)).toEqual([["one"], ["two", "three"], ["four"]]);
  });

  test("writes a warning and an error at once, after all earlier lines", () => {
    const { writes, log } = collectGathered();
    log.info("one");
    log.info("two");
    log.warn("three");
    log.error("four");
    expect(writes.map(messagesOf)).toEqual([["one"], ["two", "three"], ["four"]]);
  });

  const refused = (address: string, code = "INVALID_KEY") => ({ kind: { status: 401, code }, address });
  const linesOf = (writes: string[]) =>
    writes.flatMap((lines) => lines.trimEnd().split("\n")).map((line) => JSON.parse(line));

  test("writes ten lines of one kind and address in a second, and then one line that counts the others", async () => {
    const { writes, log } = collectGathered();
    for (let i = 0; i < 1_000; i++) {
      log.info("request", { i }, refused("192.0.2.1"));
      log.warn("request", { i }, refused("192.0.2.1", "SERVER_ERROR"));
      if (i < 10) log.info("request", { i }, refused("192.0.2.2"));
    }
    expect(linesOf(writes).filter(({ level }) => level === "warn")).toHaveLength(10);
    // The pause is longer than a second, because the log uses real time.
    await Bun.sleep(1_200);
    const lines = linesOf(writes);
    expect(lines.filter(({ message }) => message === "request")).toHaveLength(30);
    const about = { message: "Further lines were left out", of: "request", count: 990, address: "192.0.2.1" };
    expect(lines.slice(30)).toMatchObject([
      { ...about, level: "info", status: 401, code: "INVALID_KEY" },
      { ...about, level: "warn", status: 401, code: "SERVER_ERROR" },
    ]);
    expect(lines).toHaveLength(32);
    log.info("request", {}, refused("192.0.2.1"));
    expect(linesOf(writes)).toHaveLength(33);
  });

  test("counts the lines of further addresses together when there are more than a hundred", async () => {
    const { writes, log } = collectGathered();
    for (let i = 0; i < 5_000; i++) log.warn("request", { i }, refused(`address ${i}`));
    // The pause is longer than a second, because the log uses real time.
    await Bun.sleep(1_200);
    const lines = linesOf(writes);
    expect(lines).toHaveLength(111);
    expect(lines.at(-1)).toMatchObject({ of: "request", count: 4_890, status: 401, address: "others" });
  });

  test("writes every line that has no group", () => {
    const { writes, log } = collectGathered();
    for (let i = 0; i < 50; i++) log.warn("Slow");
    expect(linesOf(writes)).toHaveLength(50);
  });

  test("gathers at most 500 lines", () => {
    const { writes, log } = collectGathered();
    for (let i = 0; i < 600; i++) log.info("x");
    expect(writes.map((lines) => messagesOf(lines).length)).toEqual([1, 500]);
  });

  test("loses no line when the process exits", () => {
    const source = `
      import { createLog } from ${JSON.stringify(join(import.meta.dir, "../../src/base/log.ts"))};
      import { systemClock } from ${JSON.stringify(join(import.meta.dir, "../../src/base/clock.ts"))};
      const log = createLog({ format: "json", clock: systemClock, gathers: true });
      log.info("one");
      log.info("two");
      for (let i = 0; i < 50; i++) log.info("request", {}, { kind: { status: 401 }, address: "::1" });
      process.exit(3);`;
    const { stderr, exitCode } = Bun.spawnSync([process.execPath, "-e", source]);
    expect(exitCode).toBe(3);
    const messages = messagesOf(stderr.toString());
    expect(messages).toEqual(["one", "two", ...Array(10).fill("request"), "Further lines were left out"]);
    expect(stderr.toString()).toEndWith('"of":"request","count":40,"status":401,"address":"::1"}\n');
  });
});

test("silentLog writes nothing", () => {
  expect(silentLog.error("x")).toBeUndefined();
});
