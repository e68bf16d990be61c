import { expect, test } from "bun:test";
import { explainGlibc, hostGlibc } from "../../../src/base/platform/bun/_glibc.ts";

test("explainGlibc() refuses an older glibc, compares versions as numbers, and says what to do", () => {
  expect(explainGlibc("2.27", "2.17")).toBe(
    "Cannot run the PostgreSQL inside: it needs glibc 2.27 or newer, and this host has 2.17; " +
      "use a newer system, or name a PostgreSQL of your own in DATABASE_URL",
  );
  expect(explainGlibc("2.27", "2.4")).toContain("this host has 2.4;");
  expect(explainGlibc("2.27", undefined)).toContain("this host has another C library");
  for (const found of ["2.27", "2.28", "2.100", "3.0"]) expect(explainGlibc("2.27", found)).toBeUndefined();
});

test("explainGlibc() checks nothing if the build contains no PostgreSQL", () => {
  expect(explainGlibc(undefined, undefined)).toBeUndefined();
});

test.skipIf(Bun.which("getconf") === null)("hostGlibc() returns the version that getconf reports", () => {
  const printed = Bun.spawnSync(["getconf", "GNU_LIBC_VERSION"]).stdout.toString();
  const [, version] = /^glibc (\S+)/.exec(printed) ?? [];
  expect(hostGlibc()).toBe(version);
});
