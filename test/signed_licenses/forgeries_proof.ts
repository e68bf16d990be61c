/** OpenSSL refuses a license with any character changed, and accepts every license that `jose` accepts. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { changeEachCharacter, goodForOpenSsl, KEYS, signSample } from "./forgeries.ts";

setDefaultTimeout(120_000);

test("OpenSSL accepts 500 licenses, and none with one character changed", () => {
  const { publicKey } = KEYS[0];
  const licenses = Array.from({ length: 500 }, (_, length) =>
    signSample({
      nonce: randomBytes(64)
        .toString("base64")
        .slice(0, length % 128),
    }),
  );
  expect(goodForOpenSsl(licenses, publicKey)).toHaveLength(500);
  const [license = ""] = licenses;
  expect(goodForOpenSsl(changeEachCharacter(license), publicKey)).toEqual([]);
});
