/**
 * Checks whether this host has the glibc that the PostgreSQL inside needs. With an older glibc the start would fail
 * with a line of the dynamic linker that does not help an operator.
 */
import { dlopen } from "bun:ffi";
import { openCLibrary } from "./_c_library.ts";

/** The needed version. The build reads it from the binaries and defines it; undefined when run from source. */
declare const CLAVIGER_NEEDS_GLIBC: string | undefined;

/** Throws the sentence of {@linkcode explainGlibc} if the host's glibc is too old. */
export function demandGlibc(): void {
  const needed = typeof CLAVIGER_NEEDS_GLIBC === "string" ? CLAVIGER_NEEDS_GLIBC : undefined;
  const sentence = explainGlibc(needed, needed === undefined ? undefined : hostGlibc());
  if (sentence !== undefined) throw new Error(sentence);
}

/** Returns why the PostgreSQL inside cannot run on a host with the glibc `found`; undefined if it can. */
export function explainGlibc(needed: string | undefined, found: string | undefined): string | undefined {
  if (
    needed === undefined ||
    (found !== undefined && found.localeCompare(needed, "en", { numeric: true }) >= 0)
  )
    return undefined;
  const has = found === undefined ? "has another C library" : `has ${found}`;
  return (
    `Cannot run the PostgreSQL inside: it needs glibc ${needed} or newer, and this host ${has}; ` +
    "use a newer system, or name a PostgreSQL of your own in DATABASE_URL"
  );
}

/** Returns the version of the host's glibc; undefined if the C library is another one. */
export function hostGlibc(): string | undefined {
  try {
    const open = (name: string) => dlopen(name, { gnu_get_libc_version: { args: [], returns: "cstring" } });
    return String(openCLibrary(open).symbols.gnu_get_libc_version());
  } catch {
    return undefined;
  }
}
