/** Tar files in one form: what is written is read back, here and by the system's `tar`, and nothing else is read. */
import { describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import {
  isTarPath,
  NotCanonicalTar,
  readTar,
  TAR_FILE_LIMIT_BYTES,
  tarSizeOf,
  writeTar,
} from "../../src/base/ustar.ts";

interface Sample {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly modifiedAt: Date;
}

const AT = new Date("2025-11-30T12:00:00Z");

const toFile = ({ path, bytes, modifiedAt }: Sample) => ({
  path,
  modifiedAt,
  sizeBytes: bytes.length,
  read: () => [bytes],
});

async function write(samples: readonly Sample[]): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of writeTar(samples.map(toFile))) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Returns the bytes in chunks of these sizes in turn. */
async function* inChunks(bytes: Uint8Array, sizes: readonly number[] = [bytes.length + 1]) {
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

async function read(bytes: Uint8Array, sizes?: readonly number[]): Promise<Sample[]> {
  const samples: Sample[] = [];
  for await (const { path, modifiedAt, sizeBytes, content } of readTar(inChunks(bytes, sizes))) {
    const parts: Uint8Array[] = [];
    for await (const part of content()) parts.push(part.slice());
    const whole = new Uint8Array(Buffer.concat(parts));
    expect(whole.length).toBe(sizeBytes);
    samples.push({ path, bytes: whole, modifiedAt });
  }
  return samples;
}

const isRead = (bytes: Uint8Array) =>
  read(bytes).then(
    () => true,
    (error) => {
      if (error instanceof NotCanonicalTar) return false;
      throw error;
    },
  );

const name = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9._+-]{0,30}$/);
const sample = fc.record({
  path: fc.array(name, { minLength: 1, maxLength: 3 }).map((names) => names.join("/")),
  // Sizes around whole blocks matter most.
  bytes: fc.oneof(
    fc.uint8Array({ maxLength: 2_000 }),
    fc.constantFrom(0, 1, 511, 512, 513, 1_024).map((length) => new Uint8Array(length).fill(7)),
  ),
  modifiedAt: fc.integer({ min: 0, max: 8 ** 11 - 1 }).map((seconds) => new Date(seconds * 1_000)),
});
const samples = fc.array(sample, { maxLength: 5 });

describe("writeTar() and readTar()", () => {
  test("read back what was written, in chunks of any sizes, and the size is known before", async () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(samples, sizes, async (given, sizes) => {
        const bytes = await write(given);
        expect(await read(bytes, sizes)).toEqual(given);
        expect(tarSizeOf(given.map(toFile))).toBe(bytes.length);
        expect(await write(given)).toEqual(bytes);
      }),
    );
  });

  test("no other bytes are read as the same files", async () => {
    const change = fc.record({ at: fc.nat(), xor: fc.integer({ min: 1, max: 255 }) });
    await fc.assert(
      fc.asyncProperty(samples, change, async (given, { at, xor }) => {
        const bytes = await write(given);
        const index = at % bytes.length;
        bytes[index] = (bytes[index] ?? 0) ^ xor;
        const other = await read(bytes).catch((error) => {
          expect(error).toBeInstanceOf(NotCanonicalTar);
          return undefined;
        });
        if (other !== undefined) expect(other).not.toEqual(given);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a file that was cut, or that has more behind its end, is not read", async () => {
    const bytes = await write([{ path: "a/b.txt", bytes: new Uint8Array(700), modifiedAt: AT }]);
    expect(await isRead(bytes)).toBe(true);
    for (let length = 0; length < bytes.length; length++)
      expect([length, await isRead(bytes.subarray(0, length))]).toEqual([length, false]);
    for (const more of [1, 512, 1_024]) {
      expect(await isRead(Buffer.concat([bytes, new Uint8Array(more)]))).toBe(false);
    }
  });

  test("no bytes make the reader fail in another way, or read on without an end", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 3_000 }), async (bytes) => {
        expect(typeof (await isRead(bytes))).toBe("boolean");
      }),
    );
  });

  test("the system's tar reads it, and gives the same names, bytes, modes and times", async () => {
    const folder = mkdtempSync(join(tmpdir(), "claviger-ustar-"));
    try {
      const long = `${"f".repeat(49)}/${"n".repeat(50)}`;
      const given = [
        { path: "manifest.jws", bytes: Buffer.from("a.b.c\n"), modifiedAt: AT },
        { path: "files/empty", bytes: Buffer.alloc(0), modifiedAt: AT },
        { path: "files/whole-block_1.0+2.bin", bytes: Buffer.alloc(512, 1), modifiedAt: AT },
        { path: long, bytes: Buffer.alloc(100_000, 2), modifiedAt: AT },
      ];
      writeFileSync(join(folder, "a.tar"), await write(given));
      const run = (args: string[]) => {
        const { exitCode, stdout, stderr } = Bun.spawnSync(["tar", ...args], {
          cwd: folder,
          env: { ...process.env, TZ: "UTC", LC_ALL: "C" },
        });
        expect([exitCode, stderr.toString()]).toEqual([0, ""]);
        return stdout.toString();
      };
      const listed = run(["-tvf", "a.tar", "--numeric-owner"]).trimEnd().split("\n");
      expect(listed.map((line) => line.replaceAll(/ +/g, " "))).toEqual(
        given.map(({ path, bytes }) => `-rw-r--r-- 0/0 ${bytes.length} 2025-11-30 12:00 ${path}`),
      );
      run(["-xf", "a.tar"]);
      for (const { path, bytes } of given) expect(readFileSync(join(folder, path))).toEqual(bytes);
      expect(readdirSync(folder).sort()).toEqual(["a.tar", "files", "f".repeat(49), "manifest.jws"].sort());
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("what another program writes is not read", async () => {
    const folder = mkdtempSync(join(tmpdir(), "claviger-ustar-"));
    try {
      writeFileSync(join(folder, "a.txt"), "a");
      for (const format of ["ustar", "gnu", "pax", "v7"]) {
        const made = Bun.spawnSync(["tar", `--format=${format}`, "-cf", "a.tar", "a.txt"], { cwd: folder });
        expect(made.exitCode).toBe(0);
        expect([format, await isRead(readFileSync(join(folder, "a.tar")))]).toEqual([format, false]);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("refuses to write other paths, sizes and times", async () => {
    const bytes = new Uint8Array();
    for (const path of [
      "",
      "/a",
      "a/",
      "a//b",
      "../a",
      "a/./b",
      ".a",
      "-a",
      "a b",
      "é",
      "a\n",
      "a".repeat(101),
    ]) {
      expect([path, isTarPath(path)]).toEqual([path, false]);
      await expect(write([{ path, bytes, modifiedAt: AT }])).rejects.toThrow(RangeError);
    }
    expect(isTarPath("a".repeat(100))).toBe(true);
    for (const at of [-1_000, 500, 8 ** 11 * 1_000, Number.NaN])
      await expect(write([{ path: "a", bytes, modifiedAt: new Date(at) }])).rejects.toThrow(RangeError);
    const tooLarge = { path: "a", sizeBytes: TAR_FILE_LIMIT_BYTES + 1, modifiedAt: AT, read: () => [] };
    await expect(writeTar([tooLarge]).next()).rejects.toThrow(RangeError);
    await writeTar([{ ...tooLarge, sizeBytes: TAR_FILE_LIMIT_BYTES }]).next();
  });

  test("refuses a file whose size has changed", async () => {
    for (const length of [1, 3]) {
      const file = { path: "a", sizeBytes: 2, modifiedAt: AT, read: () => [new Uint8Array(length)] };
      const whole = (async () => {
        for await (const _ of writeTar([file]));
      })();
      await expect(whole).rejects.toThrow("Cannot write a: its size has changed");
    }
  });
});
