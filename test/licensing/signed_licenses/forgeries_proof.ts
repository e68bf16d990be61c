/** OpenSSL accepts many licenses of different lengths, and refuses a license with any character changed. */
import { expect, test } from "bun:test";
import { acceptedByOpenSsl, changeEachCharacter, KEYS, signSample } from "./forgeries.ts";

test("OpenSSL accepts 500 licenses, and none with one character changed", () => {
  const { publicKey } = KEYS[0];
  const licenses = Array.from({ length: 500 }, (_, length) =>
    signSample({ nonce: "n".repeat(1 + (length % 128)) }),
  );
  expect(acceptedByOpenSsl(licenses, publicKey)).toHaveLength(500);
  const [license = ""] = licenses;
  expect(acceptedByOpenSsl(changeEachCharacter(license), publicKey)).toEqual([]);
});
