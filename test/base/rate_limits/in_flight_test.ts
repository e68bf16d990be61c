import { describe, expect, test } from "bun:test";
import { InFlight } from "../../../src/base/rate_limits/mod.ts";

/** A piece of work that runs until the test ends it. */
function piece() {
  const state = { isOver: false, asked: 0 };
  const isOver = () => {
    state.asked++;
    return state.isOver;
  };
  return { state, isOver };
}

const over = () => true;
const underWay = () => false;

describe("InFlight", () => {
  test("begin() limits how many one sender runs at once, and lets one more begin as soon as one has ended", () => {
    const inFlight = new InFlight({ perSender: 2, inAll: 0 });
    const first = piece();
    expect(inFlight.begin("a", { nowMs: 0, isOver: first.isOver })).toBe("begun");
    expect(inFlight.begin("a", { nowMs: 0, isOver: underWay })).toBe("begun");
    expect(inFlight.begin("a", { nowMs: 0, isOver: underWay })).toBe("sender full");
    expect(inFlight.begin("b", { nowMs: 0, isOver: underWay })).toBe("begun");
    first.state.isOver = true;
    expect(inFlight.begin("a", { nowMs: 100, isOver: underWay })).toBe("begun");
    expect(inFlight.begin("a", { nowMs: 100, isOver: underWay })).toBe("sender full");
  });

  test("begin() limits how many all senders together run at once", () => {
    const inFlight = new InFlight({ perSender: 0, inAll: 3 });
    const first = piece();
    expect(inFlight.begin("a", { nowMs: 0, isOver: first.isOver })).toBe("begun");
    expect(inFlight.begin("b", { nowMs: 0, isOver: underWay })).toBe("begun");
    expect(inFlight.begin("b", { nowMs: 0, isOver: underWay })).toBe("begun");
    expect(inFlight.begin("c", { nowMs: 0, isOver: underWay })).toBe("all full");
    first.state.isOver = true;
    expect(inFlight.begin("c", { nowMs: 100, isOver: underWay })).toBe("begun");
    expect(inFlight.size).toBe(3);
  });

  test("begin() limits a sender to 16 once three quarters of all places are taken", () => {
    const inFlight = new InFlight({ perSender: 40, inAll: 100 });
    const begin = (sender: string, isOver = underWay) => inFlight.begin(sender, { nowMs: 0, isOver });
    for (let count = 0; count < 30; count++) begin("a");
    for (let count = 0; count < 30; count++) begin("b");
    for (let count = 0; count < 15; count++) expect(begin("c")).toBe("begun");
    expect(begin("a")).toBe("sender crowds others");
    expect(begin("c")).toBe("begun");
    expect(begin("c")).toBe("sender crowds others");
    for (let count = 0; count < 16; count++) expect(begin("d")).toBe("begun");
    expect(begin("d")).toBe("sender crowds others");
    for (let count = 0; count < 8; count++) expect(begin("e")).toBe("begun");
    expect(begin("f")).toBe("all full");
  });

  test("begin() lets a sender run more than 16 again when work of others has ended", () => {
    const inFlight = new InFlight({ perSender: 0, inAll: 100 });
    const [first, own] = [piece(), piece()];
    for (let count = 0; count < 16; count++) inFlight.begin("a", { nowMs: 0, isOver: own.isOver });
    for (let count = 0; count < 59; count++) inFlight.begin("b", { nowMs: 0, isOver: first.isOver });
    const next = (nowMs: number) => inFlight.begin("a", { nowMs, isOver: underWay });
    for (let nowMs = 0; nowMs < 200; nowMs++) expect(next(nowMs)).toBe("sender crowds others");
    // Each piece was asked twice in 200 ms, so a refusal costs almost nothing.
    expect(first.state.asked).toBe(2 * 59);
    expect(own.state.asked).toBe(2 * 2 * 16);
    first.state.isOver = true;
    expect(next(300)).toBe("begun");
    expect(inFlight.size).toBe(17);
  });

  test("begin() refuses no sender because of ended work, however fast work begins and ends", () => {
    const inFlight = new InFlight({ perSender: 40, inAll: 100 });
    for (let count = 0; count < 20; count++) inFlight.begin("a", { nowMs: 0, isOver: underWay });
    for (let count = 0; count < 10_000; count++) {
      for (const sender of ["a", "b", "c", "d", "e"])
        expect(inFlight.begin(sender, { nowMs: 0, isOver: over })).toBe("begun");
    }
  });

  test("begin() seldom asks whether others have ended when nearly three quarters of the places are taken", () => {
    const inFlight = new InFlight({ perSender: 0, inAll: 100 });
    const first = piece();
    for (let count = 0; count < 52; count++) inFlight.begin("a", { nowMs: 0, isOver: first.isOver });
    for (let count = 0; count < 20; count++) inFlight.begin("b", { nowMs: 0, isOver: underWay });
    for (let nowMs = 0; nowMs < 1_000; nowMs++) {
      for (let count = 0; count < 3; count++) inFlight.begin("c", { nowMs, isOver: over });
      inFlight.begin("b", { nowMs, isOver: over });
    }
    expect(first.state.asked).toBeLessThan(52 * 60);
  });

  test("begin() keeps a sender's bound that is below 16, and refuses nothing when both bounds are off", () => {
    const few = new InFlight({ perSender: 3, inAll: 4 });
    for (let count = 0; count < 3; count++) few.begin("a", { nowMs: 0, isOver: underWay });
    expect(few.begin("a", { nowMs: 0, isOver: underWay })).toBe("sender full");
    const open = new InFlight({ perSender: 0, inAll: 0 });
    for (let count = 0; count < 5_000; count++) {
      expect(open.begin("a", { nowMs: 0, isOver: underWay })).toBe("begun");
    }
  });

  test("begin() does not ask whether work has ended while there is room, and asks seldom when there is none", () => {
    const inFlight = new InFlight({ perSender: 1, inAll: 0 });
    const first = piece();
    inFlight.begin("a", { nowMs: 0, isOver: first.isOver });
    expect(first.state.asked).toBe(0);
    for (let nowMs = 0; nowMs < 200; nowMs++) {
      expect(inFlight.begin("a", { nowMs, isOver: underWay })).toBe("sender full");
    }
    expect(first.state.asked).toBe(2);
  });

  test("begin() keeps at most twice as many entries as run, also without bounds", () => {
    const inFlight = new InFlight({ perSender: 0, inAll: 0 });
    for (let index = 0; index < 700; index++) inFlight.begin("long", { nowMs: 0, isOver: underWay });
    let most = 0;
    for (let index = 0; index < 50_000; index++) {
      expect(inFlight.begin(`sender ${index}`, { nowMs: 0, isOver: over })).toBe("begun");
      most = Math.max(most, inFlight.size);
    }
    expect(most).toBeWithin(1_000, 1_401);
  });
});
