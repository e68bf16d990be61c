/** Opens the C library of this system: glibc or musl. */

const NAMES = ["libc.so.6", "libc.so", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"];

/** Opens the library with the first name that works; throws if no name works. */
export function openCLibrary<Library>(open: (name: string) => Library): Library {
  let cause: unknown;
  for (const name of NAMES) {
    try {
      return open(name);
    } catch (error) {
      cause = error;
    }
  }
  throw new Error("Cannot open the C library", { cause });
}

/** Returns a function that opens the library on its first call. */
export function onFirstUse<Library>(open: (name: string) => Library): () => Library {
  let opened: Library | undefined;
  return () => {
    opened ??= openCLibrary(open);
    return opened;
  };
}
