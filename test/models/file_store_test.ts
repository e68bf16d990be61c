import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isRefusal, type Refusal } from "../../src/base/refusal.ts";
import { locateFile, modelsFolderOf, storeBytes, storeFile } from "../../src/models/mod.ts";
import { testBytes } from "../support/hosted.ts";
import { isRoot } from "../support/is_root.ts";

/** A little later than the files that a test has just written. */
const NOW = new Date(Date.now() + 600_000);
const IS_ROOT = isRoot("model files in a folder of another user");
const BYTES = testBytes(2_500_000);
const SHA256 = hash("sha256", BYTES);

let dataDir: string;
let source: string;

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "claviger-store-"));
  source = join(dataDir, "source");
  writeFileSync(source, BYTES);
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

async function store(path = source, onProgress: (done: number, total: number) => void = () => {}) {
  return await storeFile({ dataDir }, path, { now: NOW, onProgress });
}

const pathOf = (sha256: string) => join(dataDir, "models", sha256.slice(0, 2), sha256);
const filesInStore = () =>
  readdirSync(modelsFolderOf({ dataDir }), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name);

function sentenceOf(result: object | Refusal): string {
  return isRefusal(result) ? result.sentence : "stored";
}

describe("storeFile()", () => {
  test("stores the bytes under their SHA-256, and returns the SHA-256 with the size", async () => {
    expect(await store()).toEqual({ sha256: SHA256, sizeBytes: BYTES.length });
    expect(hash("sha256", readFileSync(pathOf(SHA256)))).toBe(SHA256);
    expect(filesInStore()).toEqual([SHA256]);
  });

  test("stores the same bytes only once, though they come from two paths", async () => {
    await store();
    const again = join(dataDir, "again");
    writeFileSync(again, BYTES);
    expect(await store(again)).toEqual({ sha256: SHA256, sizeBytes: BYTES.length });
    expect(filesInStore()).toEqual([SHA256]);
  });

  test("replaces a damaged stored file", async () => {
    await store();
    writeFileSync(pathOf(SHA256), "damaged");
    await store();
    expect(hash("sha256", readFileSync(pathOf(SHA256)))).toBe(SHA256);
  });

  test("refuses an empty file, and stores nothing", async () => {
    truncateSync(source, 0);
    expect(sentenceOf(await store())).toBe("Cannot store the file: it is empty");
    expect(filesInStore()).toEqual([]);
  });

  test("reports its progress up to the last byte", async () => {
    const seen: number[] = [];
    await store(source, (done, total) => {
      expect(total).toBe(BYTES.length);
      seen.push(done);
    });
    expect(seen.length).toBeGreaterThan(2);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(seen.at(-1)).toBe(BYTES.length);
  });

  test("leaves nothing when it is interrupted", async () => {
    const interrupted = store(source, (done) => {
      if (done > 1_500_000) throw new Error("interrupted");
    });
    expect(interrupted).rejects.toThrow("interrupted");
    await interrupted.catch(() => {});
    expect(filesInStore()).toEqual([]);
  });

  test("writes under another name until the file is whole", async () => {
    await store(source, () => {
      const names = filesInStore();
      expect(names).toHaveLength(1);
      expect(names[0]).toMatch(/^unfinished-[0-9a-f]{16}$/);
      expect(existsSync(pathOf(SHA256))).toBe(false);
    });
  });

  test("deletes the files that killed copies left, but no file that is still being written", async () => {
    await store();
    const folder = modelsFolderOf({ dataDir });
    const [old, young] = [
      join(folder, `unfinished-${"0".repeat(16)}`),
      join(folder, `unfinished-${"1".repeat(16)}`),
    ];
    for (const path of [old, young]) writeFileSync(path, "half");
    const twoHoursAgo = NOW.getTime() / 1_000 - 7_200;
    utimesSync(old, twoHoursAgo, twoHoursAgo);
    const isThere = () => [old, young, pathOf(SHA256)].map((path) => existsSync(path));
    await store();
    expect(isThere()).toEqual([false, true, true]);
    writeFileSync(old, "half");
    utimesSync(old, twoHoursAgo, twoHoursAgo);
    async function* bytes() {
      yield Buffer.from(BYTES);
    }
    await storeBytes({ dataDir }, bytes(), { now: NOW, sizeBytes: BYTES.length, onProgress() {} });
    expect(isThere()).toEqual([false, true, true]);
  });

  test("refuses a file that changes while it is read", async () => {
    const growing = store(source, (done) => {
      if (done === 1_048_576) writeFileSync(source, "more", { flag: "a" });
    });
    expect(sentenceOf(await growing)).toContain("it changed while it was read");
    const written = store(source, (done) => {
      if (done === 1_048_576) utimesSync(source, 1, 1);
    });
    expect(sentenceOf(await written)).toContain("it changed while it was read");
    expect(filesInStore()).toEqual([]);
  });

  test("refuses a path that is not a regular file", async () => {
    expect(sentenceOf(await store(dataDir))).toBe(`Cannot add model: ${dataDir}: it is not a file`);
    expect(sentenceOf(await store("/dev/zero"))).toBe("Cannot add model: /dev/zero: it is not a file");
    const pipe = join(dataDir, "pipe");
    Bun.spawnSync(["mkfifo", pipe]);
    expect(sentenceOf(await store(pipe))).toContain("it is not a file");
  });

  test("follows a link to a file, and stores the file instead of the link", async () => {
    const link = join(dataDir, "link");
    symlinkSync(source, link);
    await store(link);
    expect(lstatSync(pathOf(SHA256)).isFile()).toBe(true);
  });

  test("throws the file system's error for a path that does not exist", async () => {
    expect(store(join(dataDir, "nothing"))).rejects.toMatchObject({ code: "ENOENT" });
  });

  test("lets only the service's user and group read, whatever the umask is", async () => {
    const mask = process.umask(0o077);
    try {
      await store();
    } finally {
      process.umask(mask);
    }
    const modeOf = (path: string) => statSync(path).mode & 0o777;
    expect(modeOf(pathOf(SHA256))).toBe(0o640);
    for (const path of ["models", `models/${SHA256.slice(0, 2)}`])
      expect(modeOf(join(dataDir, path))).toBe(0o750);
  });

  test.skipIf(!IS_ROOT)("stores nothing as root in a folder that another user can change", async () => {
    chownSync(dataDir, 12_345, 23_456);
    expect(store()).rejects.toThrow(`${dataDir}: it belongs to user #12345`);
    expect(existsSync(modelsFolderOf({ dataDir }))).toBe(false);
  });
});

describe("locateFile()", () => {
  const file = { sha256: SHA256, sizeBytes: BYTES.length };
  const open = async () => {
    const found = await locateFile(modelsFolderOf({ dataDir }), file);
    return typeof found === "string" ? found : hash("sha256", readFileSync(found.path));
  };

  test("returns the path of the file, or says what is wrong with the file", async () => {
    expect(await open()).toBe("missing");
    await store();
    expect(await open()).toBe(SHA256);
    truncateSync(pathOf(SHA256), 10);
    expect(await open()).toBe("changed");
    rmSync(pathOf(SHA256));
    mkdirSync(pathOf(SHA256));
    expect(await open()).toBe("changed");
  });

  test("refuses every name that is not a SHA-256", async () => {
    for (const sha256 of ["", "../../etc/passwd", "a".repeat(63), "A".repeat(64), `${"a".repeat(64)}/`]) {
      expect(locateFile("/", { sha256, sizeBytes: 0 })).rejects.toThrow(RangeError);
    }
  });
});
