/**
 * Reads from ELF files which glibc they need: the newest version that one of their symbols needs, from the section of
 * version needs (`.gnu.version_r`), as `readelf -V` shows it; and which shared libraries, from the dynamic section, as
 * `readelf -d` shows them. Only for 64-bit little-endian files.
 */
import { readFileSync } from "node:fs";

export type Machine = "x64" | "arm64";

const MACHINES: Readonly<Record<number, Machine>> = { 62: "x64", 183: "arm64" };
const SHT_DYNAMIC = 6;
const SHT_GNU_VERNEED = 0x6ffffffe;
const DT_NEEDED = 1;

/**
 * Reads the machine of one file, the glibc that it needs, such as `2.27`, or undefined if it needs none, and the names of
 * its shared libraries, such as `libc.so.6`. Returns undefined for a file of another format or machine.
 */
export function readElfNeeds(bytes: Uint8Array) {
  if (bytes.length < 64 || bytes[0] !== 0x7f || String.fromCharCode(...bytes.subarray(1, 4)) !== "ELF") {
    return undefined;
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const machine = MACHINES[view.getUint16(18, true)];
  if (bytes[4] !== 2 || bytes[5] !== 1 || machine === undefined) return undefined;
  const offset64 = (at: number) => Number(view.getBigUint64(at, true));

  const sectionsAt = offset64(40);
  const sectionSize = view.getUint16(58, true);
  const sections = Array.from({ length: view.getUint16(60, true) }, (_, i) => {
    const at = sectionsAt + i * sectionSize;
    return {
      type: view.getUint32(at + 4, true),
      offset: offset64(at + 24),
      size: offset64(at + 32),
      link: view.getUint32(at + 40, true),
      info: view.getUint32(at + 44, true),
    };
  });
  const versions: string[] = [];
  for (const { type, offset, link, info: files } of sections) {
    if (type !== SHT_GNU_VERNEED) continue;
    const namesAt = sections[link]?.offset ?? 0;
    let fileAt = offset;
    for (let file = 0; file < files; file++) {
      let entryAt = fileAt + view.getUint32(fileAt + 8, true);
      for (let entry = view.getUint16(fileAt + 2, true); entry > 0; entry--) {
        const [, version] =
          /^GLIBC_(\d[\d.]*)$/.exec(text(bytes, namesAt + view.getUint32(entryAt + 8, true))) ?? [];
        if (version !== undefined) versions.push(version);
        entryAt += view.getUint32(entryAt + 12, true);
      }
      fileAt += view.getUint32(fileAt + 12, true);
    }
  }
  const libraries = sections
    .filter(({ type }) => type === SHT_DYNAMIC)
    .flatMap(({ offset, size, link }) => {
      const entries = Array.from({ length: size / 16 }, (_, i) => offset + i * 16);
      const needed = entries.filter((at) => offset64(at) === DT_NEEDED).map((at) => offset64(at + 8));
      return needed.map((name) => text(bytes, (sections[link]?.offset ?? 0) + name));
    });
  return { machine, glibc: newestVersion(versions), libraries };
}

/** Returns the newest glibc that one of the files needs; throws if a file is for another machine. */
export function glibcNeededBy(paths: readonly string[], machine: Machine): string | undefined {
  const needs = paths.flatMap((path) => {
    const found = readElfNeeds(new Uint8Array(readFileSync(path)));
    if (found === undefined) return [];
    if (found.machine !== machine) throw new Error(`${path} is for ${found.machine}, not for ${machine}`);
    return [found.glibc];
  });
  return newestVersion(needs.filter((version) => version !== undefined));
}

function newestVersion(versions: readonly string[]): string | undefined {
  return versions.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true })).at(-1);
}

function text(bytes: Uint8Array, at: number): string {
  return String.fromCharCode(...bytes.subarray(at, bytes.indexOf(0, at)));
}
