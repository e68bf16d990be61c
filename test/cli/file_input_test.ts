import { expect, test } from "bun:test";
import { tmpdir } from "node:os";
import { readWholeInput } from "../../src/cli/file_input.ts";

async function* give(...chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

test("readWholeInput() yields all bytes, and refuses more than the free space of the disk, and none", async () => {
  const read = (...chunks: readonly Uint8Array[]) =>
    Array.fromAsync(readWholeInput({ input: give(...chunks) }, tmpdir()));
  const [one, two] = [Buffer.from("one"), Buffer.from("two")];
  expect(Buffer.concat(await read(one, two)).toString()).toBe("onetwo");
  const endless = { length: Number.MAX_SAFE_INTEGER } as Uint8Array;
  expect(read(one, endless)).rejects.toThrow(`standard input is larger than the free space for ${tmpdir()}`);
  expect(read()).rejects.toThrow("standard input is empty");
});
