import { expect, test } from "bun:test";
import { sign } from "../../../src/models/bucket/mod.ts";

/** Amazon's own examples. Source: Amazon S3 API reference, signature calculations for the Authorization header. */
const ACCESS = {
  accessKeyId: "AKIAIOSFODNN7EXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  region: "us-east-1",
};
const AT = new Date("2013-05-24T00:00:00Z");
const HOST = "https://examplebucket.s3.amazonaws.com";

test.each([
  [
    "a range of an object",
    { method: "GET" as const, url: `${HOST}/test.txt`, headers: { Range: "bytes=0-9" }, body: "" },
    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  ],
  [
    "a new object",
    {
      method: "PUT" as const,
      url: `${HOST}/test$file.text`,
      headers: { Date: "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY" },
      body: "Welcome to Amazon S3.",
    },
    "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
  ],
  [
    "a query without a value",
    { method: "GET" as const, url: `${HOST}/?lifecycle`, headers: {}, body: "" },
    "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
  ],
  [
    "a list of objects",
    { method: "GET" as const, url: `${HOST}/?max-keys=2&prefix=J`, headers: {}, body: "" },
    "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
  ],
])("sign() signs %s as in Amazon's example", async (_what, { body, ...request }, signature) => {
  const { authorization } = await sign(ACCESS, { ...request, body: Buffer.from(body) }, AT);
  expect(authorization).toEndWith(`, Signature=${signature}`);
});
