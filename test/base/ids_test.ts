import { expect, test } from "bun:test";
import { newRequestId, newUuid, parseId, toId } from "../../src/base/ids.ts";

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test("newUuid() makes UUIDs of version 7, and each sorts after the previous one", () => {
  const made = Array.from({ length: 1000 }, newUuid);
  expect(made[0]).toMatch(UUID_V7);
  expect(made.toSorted()).toEqual(made);
  expect(new Set(made).size).toBe(made.length);
});

test("parseId() reverses toId()", () => {
  const uuid = newUuid();
  expect(toId("usr", uuid)).toMatch(/^usr_[0-9a-f]{32}$/);
  expect(parseId("usr", toId("usr", uuid))).toBe(uuid);
});

test("parseId() refuses another kind, another length, uppercase letters and surrounding text", () => {
  const id = toId("key", newUuid());
  expect(parseId("usr", id)).toBeUndefined();
  for (const wrong of [id.slice(0, -1), `${id}0`, id.toUpperCase(), ` ${id}`, `${id}\n`, "key_", ""]) {
    expect(parseId("key", wrong)).toBeUndefined();
  }
});

test("newUuid() makes ordered UUIDs even if its counter overflows within a millisecond", () => {
  const made = Array.from({ length: 20_000 }, newUuid);
  expect(made.toSorted()).toEqual(made);
  expect(new Set(made).size).toBe(made.length);
  for (const uuid of made) expect(uuid).toMatch(UUID_V7);
});

test("newUuid() contains the time at which it was made", () => {
  const beforeMs = Date.now();
  const [time] = newUuid().replace("-", "").split("-");
  // The time may be ahead of the clock after a burst, such as the one in the previous test.
  expect(Number.parseInt(time ?? "", 16)).toBeGreaterThanOrEqual(beforeMs);
  expect(Number.parseInt(time ?? "", 16)).toBeLessThan(beforeMs + 1_000);
});

test("newRequestId() returns an identifier in the order of newUuid()", () => {
  const [before, id, after] = [newUuid(), newRequestId(), newUuid()];
  const uuid = parseId("req", id) ?? "";
  expect(uuid).toMatch(UUID_V7);
  expect([before, uuid, after].toSorted()).toEqual([before, uuid, after]);
});
