/** The judge of histories finds what it must find. */
import { describe, expect, test } from "bun:test";
import {
  type JournalLine,
  Occupancy,
  toHoldings,
  unfounded,
  wronglyLost,
  wrongRefusals,
} from "./places_history.ts";

const LIMIT = 30;
const SEAT_MS = 300_000;

/** Returns the journal of machines that are activated one after the other, a second apart. */
function activated(count: number): JournalLine[] {
  return Array.from({ length: count }, (_, index) => line(`m${index}`, index * 1_000));
}

function line(machine: string, atMs: number, untilMs = atMs + SEAT_MS): JournalLine {
  return { machine, atMs, untilMs };
}

function released(machine: string, atMs: number): JournalLine {
  return line(machine, atMs, Number.NEGATIVE_INFINITY);
}

const occupancyOf = (journal: readonly JournalLine[]) => new Occupancy(toHoldings(journal));

describe("toHoldings()", () => {
  test("joins heartbeats, and separates an activation after a release or an end", () => {
    const journal = [line("a", 0), line("a", 100_000), released("a", 150_000), line("a", 200_000)];
    expect(
      toHoldings([...journal, line("a", 600_000), line("b", 700_000, Number.POSITIVE_INFINITY)]),
    ).toEqual([
      { machine: "a", fromMs: 0, toMs: 150_000 },
      { machine: "a", fromMs: 200_000, toMs: 500_000 },
      { machine: "a", fromMs: 600_000, toMs: 900_000 },
      { machine: "b", fromMs: 700_000, toMs: Number.POSITIVE_INFINITY },
    ]);
  });

  test("ends a seat at its end, although its row says so later", () => {
    expect(toHoldings([line("a", 0), released("a", 400_000)])).toEqual([
      { machine: "a", fromMs: 0, toMs: 300_000 },
    ]);
  });
});

describe("Occupancy", () => {
  test("finds 31 machines at one moment, and nothing where the place was free before", () => {
    expect(occupancyOf(activated(31)).above(LIMIT)).toMatchObject([{ atMs: 30_000, held: 31 }]);
    expect(occupancyOf(activated(30)).above(LIMIT)).toEqual([]);
    const afterRelease = [...activated(30), released("m3", 29_500), line("m30", 29_500)];
    expect(occupancyOf(afterRelease).above(LIMIT)).toEqual([]);
    const beforeRelease = [...activated(30), line("m30", 29_500), released("m3", 29_501)];
    expect(occupancyOf(beforeRelease).above(LIMIT)).toMatchObject([{ atMs: 29_500, held: 31 }]);
  });

  test("tells the most machines of the whole history", () => {
    const whole = { sentMs: Number.NEGATIVE_INFINITY, answeredMs: Number.POSITIVE_INFINITY };
    expect(occupancyOf(activated(12)).mostDuring(whole)).toBe(12);
  });

  test("finds a seat that is given away a millisecond before its end", () => {
    expect(occupancyOf([...activated(30), line("m30", SEAT_MS)]).above(LIMIT)).toEqual([]);
    expect(occupancyOf([...activated(30), line("m30", SEAT_MS - 1)]).above(LIMIT)).toHaveLength(1);
  });

  test("finds a machine that is renewed after its place was given away", () => {
    const givenAway = [...activated(30), released("m0", SEAT_MS), line("m30", SEAT_MS)];
    expect(occupancyOf(givenAway).above(LIMIT)).toEqual([]);
    expect(occupancyOf([...givenAway, line("m0", SEAT_MS + 10)]).above(LIMIT)).toHaveLength(1);
  });
});

describe("wrongRefusals()", () => {
  const history = occupancyOf([...activated(30), released("m5", 50_000), line("m30", 60_000)]);
  const refused = (sentMs: number, answeredMs: number) =>
    wrongRefusals(history, { refusals: [{ sentMs, answeredMs }], limit: LIMIT });

  test("finds a refusal while a place was free for the whole request", () => {
    expect(refused(50_001, 59_999)).toHaveLength(1);
    expect(refused(50_000, 50_000)).toHaveLength(1);
    expect(refused(10_000, 20_000)).toHaveLength(1);
    // The first seat has ended, although no row says so.
    expect(refused(SEAT_MS, SEAT_MS + 900)).toHaveLength(1);
  });

  test("allows a refusal if every place was taken at some moment of the request", () => {
    expect(refused(40_000, 45_000)).toEqual([]);
    expect(refused(49_999, 55_000)).toEqual([]);
    expect(refused(55_000, 60_000)).toEqual([]);
    expect(refused(SEAT_MS - 1, SEAT_MS + 900)).toEqual([]);
  });
});

test("unfounded() finds a confirmed place that the machine never held during the request", () => {
  const holdings = toHoldings([line("a", 1_000), released("a", 5_000)]);
  const confirmed = (sentMs: number, answeredMs: number, machine = "a") =>
    unfounded(holdings, [{ machine, sentMs, answeredMs }]);
  expect(confirmed(900, 1_100)).toEqual([]);
  expect(confirmed(4_999, 6_000)).toEqual([]);
  expect(confirmed(5_001, 6_000)).toHaveLength(1);
  expect(confirmed(0, 999)).toHaveLength(1);
  expect(confirmed(2_000, 3_000, "b")).toHaveLength(1);
});

test("wronglyLost() finds a machine that is turned away while it holds its place", () => {
  const holdings = toHoldings([line("a", 1_000), released("a", 5_000)]);
  const lost = (sentMs: number, answeredMs: number, machine = "a") =>
    wronglyLost(holdings, [{ machine, sentMs, answeredMs }]);
  expect(lost(1_001, 4_999)).toHaveLength(1);
  expect(lost(1_000, 4_999)).toEqual([]);
  expect(lost(2_000, 5_000)).toEqual([]);
  expect(lost(2_000, 3_000, "b")).toEqual([]);
});
