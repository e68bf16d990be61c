/** The room for large bodies: bounded for one sender and for all, and given back. */
import { expect, test } from "bun:test";
import { ByteRoom, bytesToRead } from "../../../src/base/rate_limits/mod.ts";

test("ByteRoom gives a sender and all together no more than their bounds, and takes the room back", () => {
  const room = new ByteRoom({ perSender: 10, inAll: 15 });
  const leave = room.take("a", 6);
  expect(room.take("a", 5)).toBe("sender full");
  expect(room.take("a", 4)).toBeFunction();
  expect(room.take("b", 6)).toBe("all full");
  expect(room.take("b", 5)).toBeFunction();
  if (typeof leave === "function") leave();
  expect(room.take("b", 6)).toBe("sender full");
  expect(room.take("c", 6)).toBeFunction();
});

test("bytesToRead() is the declared size, or the largest one if it is not a single number, or is larger", () => {
  const of = (length?: string) =>
    bytesToRead(
      new Request("http://h/", { headers: length === undefined ? {} : { "content-length": length } }),
      9,
    );
  expect([of("5"), of(), of("5, 5"), of("10")]).toEqual([5, 9, 9, 9]);
});
