/**
 * Packs texts into a wheel, the form in which pip installs packages of Python
 * (https://packaging.python.org/specifications/binary-distribution-format/). The same texts give the same bytes.
 */
import { createHash } from "node:crypto";
import { strToU8, type Zippable, zipSync } from "fflate";

interface WheelOptions {
  /** Name and version as the names of files have them, such as `claviger_client-0.5.0`. */
  readonly release: string;
  /** The files about the package: each stands in the folder `.dist-info`. */
  readonly about: Readonly<Record<string, string>>;
  /** The time of every file, in seconds since 1970. */
  readonly createdAtSeconds: number;
}

/** An ordinary file that its owner may write and everybody may read, as `stat` has it, in the upper half. */
const ATTRIBUTES = 0o100644 * 2 ** 16;
/** Says that the attributes are those of Unix. */
const UNIX = 3;

/** Returns the wheel of the texts, which are named by their paths. It adds RECORD, which has the digest of each file. */
export function renderWheel(
  texts: Readonly<Record<string, string>>,
  { release, about, createdAtSeconds }: WheelOptions,
): Uint8Array {
  const info = `${release}.dist-info`;
  const inInfo = Object.fromEntries(Object.entries(about).map(([name, text]) => [`${info}/${name}`, text]));
  // The files about the package come last, as the specification recommends.
  const files = [...sorted(texts), ...sorted(inInfo)];
  const lines = files.map(([path, text]) => `${path},sha256=${digestOf(text)},${Buffer.byteLength(text)}\n`);
  const record = `${info}/RECORD`;
  files.push([record, `${lines.join("")}${record},,\n`]);
  const options = { mtime: toZipTime(createdAtSeconds), level: 9, os: UNIX, attrs: ATTRIBUTES } as const;
  return zipSync(
    Object.fromEntries(files.map(([path, text]) => [path, [strToU8(text), options]])) satisfies Zippable,
  );
}

function sorted(texts: Readonly<Record<string, string>>): [path: string, text: string][] {
  return Object.entries(texts).sort(([a], [b]) => (a < b ? -1 : 1));
}

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

/**
 * Returns noon of the day in UTC, as a local time: an archive has local times, and a time zone may lack an hour of the
 * night. An archive knows no day before 1980.
 */
function toZipTime(seconds: number): Date {
  const day = new Date(Math.max(seconds * 1000, Date.UTC(1980, 0, 1)));
  return new Date(day.getUTCFullYear(), day.getUTCMonth(), day.getUTCDate(), 12);
}
