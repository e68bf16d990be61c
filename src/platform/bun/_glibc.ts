/**
 * Which glibc the PostgreSQL inside needs, and whether this host has it. An older one would end its start in
 * a line of the dynamic linker that tells an operator nothing.
 */
import { dlopen } from "bun:ffi";
import { openCLibrary } from "./_c_library.ts";

/** Put in by the build, which reads it from the binaries; absent from source. */
declare const CLAVIGER_NEEDS_GLIBC: string | undefined;

/** Throws the sentence of {@linkcode explainGlibc} on a host that is too old. */
export function demandGlibc(): void {
  const needed = typeof CLAVIGER_NEEDS_GLIBC === "string" ? CLAVIGER_NEEDS_GLIBC : undefined;
  const sentence = explainGlibc(needed, needed === undefined ? undefined : hostGlibc());
  if (sentence !== undefined) throw new Error(sentence);
}

/** Why the PostgreSQL inside does not run on a host with that glibc; undefined where it does. */
export function explainGlibc(needed: string | undefined, found: string | undefined): string | undefined {
  if (needed === undefined || (found !== undefined && !isOlder(found, needed))) return undefined;
  const has = found === undefined ? "has another C library" : `has ${found}`;
  return (
    `Cannot run the PostgreSQL inside: it needs glibc ${needed} or newer, and this host ${has}; ` +
    "use a newer system, or name a PostgreSQL of your own in DATABASE_URL"
  );
}

/** Undefined where the C library is none. */
export function hostGlibc(): string | undefined {
  try {
    const open = (name: string) => dlopen(name, { gnu_get_libc_version: { args: [], returns: "cstring" } });
    return String(openCLibrary(open).symbols.gnu_get_libc_version());
  } catch {
    return undefined;
  }
}

function isOlder(version: string, than: string): boolean {
  return version.localeCompare(than, "en", { numeric: true }) < 0;
}
