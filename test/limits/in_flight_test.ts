import { describe, expect, test } from "bun:test";
import { InFlight } from "../../src/limits/mod.ts";

/** Something under way that a test ends. */
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
  test("begin() lets one sender have so many at once, and one more as soon as one has ended", () => {
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

  test("begin() lets all senders have so many at once", () => {
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

  test("begin() asks nobody while there is room, and those that are full once in a while", () => {
    const inFlight = new InFlight({ perSender: 1, inAll: 0 });
    const first = piece();
    inFlight.begin("a", { nowMs: 0, isOver: first.isOver });
    expect(first.state.asked).toBe(0);
    for (let nowMs = 0; nowMs < 200; nowMs++) {
      expect(inFlight.begin("a", { nowMs, isOver: underWay })).toBe("sender full");
    }
    expect(first.state.asked).toBe(2);
  });

  test("begin() holds no more than twice of what is under way, without bounds too", () => {
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
