/** A file with any change is refused, and the database does not change. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { isRefusal } from "../../../src/base/refusal.ts";
import { migrations } from "../../../src/database/mod.ts";
import { readTar, renderTarHeader, TAR_END, tarPadding } from "../../../src/installation/backup/_tar.ts";
import { checkBackupSchema, verifyBackup } from "../../../src/installation/backup/mod.ts";
import { pathOfFile } from "../../../src/models/mod.ts";
import { createTestDatabase } from "../../support/database.ts";
import { sentenceOf } from "../../support/issue.ts";
import { TEST_SECRET } from "../../support/secrets.ts";
import { useTestDatabase } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { backUp, fill, MODEL_BYTES, prove, tryRestore, watch } from "./backup_kit.ts";

const folder = useFolder();
const path = join(folder, "backup");
const changed = join(folder, "changed");
const source = useTestDatabase();
let file: Buffer;
let tar: Buffer;

beforeAll(async () => {
  await fill(source.database);
  // Long texts would only make the test slower.
  await source.database.query((sql) => sql`delete from events where length(model_name) > 1000`);
  const model = pathOfFile(
    join(folder, "models"),
    "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
  );
  mkdirSync(join(model, ".."), { recursive: true });
  writeFileSync(model, MODEL_BYTES);
  await backUp(source.address, path, {
    secret: TEST_SECRET,
    models: { dataDir: folder },
  });
  file = readFileSync(path);
  tar = zstdDecompressSync(file);
});

function pack(bytes: Buffer): Buffer {
  return withSeal(zstdCompressSync(bytes));
}

function withSeal(bytes: Buffer): Buffer {
  const digest = createHash("sha256").update(bytes).digest();
  return Buffer.concat([bytes, Buffer.from("5c2a4d1820000000", "hex"), digest]);
}

/** Returns the refusal of these bytes; undefined if they are accepted as a backup. */
async function complaintOf(bytes: Buffer): Promise<string | undefined> {
  writeFileSync(changed, bytes);
  const outcome = await verifyBackup(changed, watch);
  return isRefusal(outcome) ? outcome.sentence : undefined;
}

interface Place {
  readonly name: string;
  readonly header: number;
  readonly content: number;
  readonly size: number;
}

async function listPlaces(): Promise<Place[]> {
  const places: Place[] = [];
  let at = 0;
  const reader = readTar(
    (async function* () {
      yield tar;
    })(),
    () => {},
  );
  for (let entry = await reader.next(); entry !== undefined; entry = await reader.next()) {
    places.push({ name: entry.name, header: at, content: at + 512, size: entry.size });
    at += 512 + entry.size + tarPadding(entry.size).length;
    for await (const _ of reader.bytes());
  }
  return places;
}

describe("verifyBackup()", () => {
  test("accepts a good file", async () => {
    expect(await complaintOf(file)).toBeUndefined();
    expect(await complaintOf(pack(tar))).toBeUndefined();
  });

  test("refuses a changed byte in every section, its header and its padding", async () => {
    const places = await listPlaces();
    expect(places.map(({ name }) => name)).toContain("secret");
    expect(places.at(-1)?.name).toBe("sums.json");
    const missed: string[] = [];
    for (const { name, header, content, size } of places) {
      const padding = size % 512 === 0 ? [] : [content + size, content + size + (511 - (size % 512))];
      const middle = Array.from({ length: 8 }, (_, index) => content + Math.floor((size * index) / 8));
      const inHeader = [0, 40, 105, 124, 130, 140, 150, 156, 260, 400, 511].map((offset) => header + offset);
      for (const at of [...inHeader, ...middle, content + size - 1, ...padding]) {
        const bytes = Buffer.from(tar);
        bytes[at] = (bytes[at] ?? 0) ^ 0x01;
        const complaint = await complaintOf(pack(bytes));
        if (complaint === undefined) missed.push(`${name} ${at - header}`);
        else if (!/damaged|no backup of Claviger|newer Claviger/.test(complaint)) missed.push(complaint);
      }
    }
    expect(missed).toEqual([]);
  });

  test("refuses a changed byte in the sums and in the end marker, tried for every eleventh byte", async () => {
    const from = (await listPlaces()).at(-1)?.header ?? 0;
    for (let at = from; at < tar.length; at += 11) {
      const bytes = Buffer.from(tar);
      bytes[at] = (bytes[at] ?? 0) ^ 0x10;
      expect({ at: at - from, complaint: await complaintOf(pack(bytes)) }).toEqual({
        at: at - from,
        complaint: expect.stringContaining("damaged"),
      });
    }
  });

  test("refuses a file with a changed byte, even if it decompresses to the same bytes", async () => {
    for (let at = 0; at < file.length; at += Math.ceil(file.length / 300)) {
      const bytes = Buffer.from(file);
      bytes[at] = (bytes[at] ?? 0) ^ 0x55;
      expect({ at, complaint: await complaintOf(bytes) }).toEqual({
        at,
        complaint: expect.stringMatching(/damaged|cut short/),
      });
    }
  });

  test("refuses a file that was cut at any place", async () => {
    for (let length = 0; length < file.length; length += Math.ceil(file.length / 100)) {
      expect(await complaintOf(file.subarray(0, length))).toMatch(/damaged|no backup/);
    }
    for (let length = file.length - 20; length < file.length; length++) {
      expect(await complaintOf(file.subarray(0, length))).toMatch(/damaged|cut short/);
    }
    for (const length of [0, 1, 511, 512, 513, tar.length - 1024, tar.length - 512, tar.length - 1]) {
      expect(await complaintOf(pack(tar.subarray(0, length)))).toMatch(/damaged|no backup/);
    }
  });

  test("refuses entries that were added, removed or moved", async () => {
    const places = await listPlaces();
    const cut = ({ header, content, size }: Place) =>
      tar.subarray(header, content + size + tarPadding(size).length);
    const of = (name: string) => cut(places.find((place) => place.name === name)!);
    const join = (parts: Buffer[]) => pack(Buffer.concat([...parts, TAR_END]));
    const all = places.map(cut);
    expect(await complaintOf(join(all))).toBeUndefined();
    const stranger = Buffer.concat([renderTarHeader({ name: "more", size: 0 }, new Date(0))]);
    const keys = of("tables/keys/000001.copy");
    for (const parts of [
      [...all, stranger],
      [stranger, ...all],
      [all[0]!, stranger, ...all.slice(1)],
      all.filter((one) => one !== all[1]),
      all.filter((one) => !one.equals(keys)),
      [...all.slice(0, 3), all[4]!, all[3]!, ...all.slice(5)],
      all.slice(0, -1),
    ]) {
      expect(await complaintOf(join(parts))).toMatch(/damaged|no backup/);
    }
    expect(await complaintOf(Buffer.concat([file, Buffer.from("more")]))).toContain("cut short");
    expect(await complaintOf(Buffer.concat([file, file]))).toContain("damaged");
  });

  test("says why a file that is not a backup is refused", async () => {
    expect(await complaintOf(Buffer.from("create table accounts ();\n"))).toContain(
      "it is no backup of Claviger",
    );
    expect(await complaintOf(withSeal(Buffer.from("no tar")))).toContain("it cannot be decompressed");
    expect(await complaintOf(pack(Buffer.alloc(1024)))).toContain("it is no backup of Claviger");
    const outcome = await verifyBackup(join(folder, "missing"), watch);
    expect(sentenceOf(outcome)).toBe(
      `Cannot read ${join(folder, "missing")}: there is no such file or folder`,
    );
    const aFolder = await verifyBackup(folder, watch);
    expect(sentenceOf(aFolder)).toBe(`Cannot read ${folder}: it is a folder; name a file`);
  });

  test("says that rows were changed, and names the format of a newer backup", async () => {
    const place = (await listPlaces()).find(({ name }) => name === "tables/licenses/000001.copy")!;
    const bytes = Buffer.from(tar);
    bytes[place.content + 3] = (bytes[place.content + 3] ?? 0) ^ 1;
    expect(await complaintOf(pack(bytes))).toBe(
      `Cannot use the backup ${changed}: it was changed after the backup: it is damaged; ` +
        "use another copy or an earlier backup",
    );
    const newer = Buffer.from(tar);
    newer[newer.indexOf('"format_version": ') + 18] = 0x37;
    expect(await complaintOf(pack(newer))).toContain("a newer Claviger wrote it (format 7)");
  });
});

describe("checkBackupSchema()", () => {
  test("refuses a backup of a newer schema, and a backup with other migrations", async () => {
    const proven = await prove(path);
    expect(checkBackupSchema(proven, migrations)).toBeUndefined();
    expect(checkBackupSchema(proven, migrations.slice(0, 2))).toBe(
      `Cannot restore ${path}: it has schema ${migrations.length} and this program knows only 2; ` +
        "use Claviger 0.1.0 or newer",
    );
    const edited = migrations.map((one) => (one.number === 2 ? { ...one, text: `${one.text} ` } : one));
    expect(checkBackupSchema(proven, edited)).toContain("its migration 2 (0002_usage) is not the one inside");
  });
});

test("restoreBackup() refuses a file that was damaged or exchanged between check and load, and loads nothing", async () => {
  const bytes = Buffer.from(tar);
  const place = (await listPlaces()).find(({ name }) => name.startsWith("tables/keys/"))!;
  bytes[place.content + place.size - 2] = (bytes[place.content + place.size - 2] ?? 0) ^ 1;
  await source.database.query((sql) => sql`update accounts set name = 'Another'`);
  const another = join(folder, "another");
  await backUp(source.address, another);
  for (const [then, why] of [
    [pack(bytes), /damaged|refused|invalid/],
    [readFileSync(another), /was changed while it was read: restore again/],
  ] as const) {
    await using target = await createTestDatabase({ empty: true });
    writeFileSync(changed, file);
    const proven = await prove(changed);
    writeFileSync(changed, then);
    const outcome = await tryRestore(target.address, proven, { models: { dataDir: folder } }).catch(String);
    expect(typeof outcome === "string" ? outcome : sentenceOf(outcome)).toMatch(why);
    expect(await target.database.query((sql) => sql`select from accounts`)).toHaveLength(0);
  }
});
