import { expect, test } from "bun:test";
import { newUuid, parseId, toId } from "../src/ids.ts";

test("newUuid() makes version 7, each sorting after the one before", () => {
  const made = Array.from({ length: 1000 }, newUuid);
  expect(made[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(made.toSorted()).toEqual(made);
  expect(new Set(made).size).toBe(made.length);
});

test("toId() and parseId() are each other's reverse", () => {
  const uuid = newUuid();
  expect(toId("usr", uuid)).toMatch(/^usr_[0-9a-f]{32}$/);
  expect(parseId("usr", toId("usr", uuid))).toBe(uuid);
});

test("parseId() refuses another kind, another length, uppercase and what stands around", () => {
  const id = toId("key", newUuid());
  expect(parseId("usr", id)).toBeUndefined();
  for (const wrong of [id.slice(0, -1), `${id}0`, id.toUpperCase(), ` ${id}`, `${id}\n`, "key_", ""]) {
    expect(parseId("key", wrong)).toBeUndefined();
  }
});
