/** Only the pinned source of PostgreSQL is built. */
import { afterEach, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { BUILT_POSTGRES } from "../../src/base/version.ts";
import { fetchPostgresSource, POSTGRES_SOURCE } from "../../src/build/postgres_source.ts";
import { useFolder } from "../support/use_folder.ts";

const folder = useFolder();
const before = process.env.POSTGRES_SOURCE;
afterEach(() => {
  if (before === undefined) delete process.env.POSTGRES_SOURCE;
  else process.env.POSTGRES_SOURCE = before;
});

test("fetchPostgresSource() refuses a file that does not have the digest, and names both digests", async () => {
  const path = join(folder, "postgresql.tar.bz2");
  writeFileSync(path, "something else");
  // As people write it; the build works in another folder.
  process.env.POSTGRES_SOURCE = relative(process.cwd(), path);
  const found = new Bun.CryptoHasher("sha256").update("something else").digest("hex");
  await expect(fetchPostgresSource()).rejects.toThrow(
    `Cannot use ${path}: its SHA-256 is ${found}, not ${POSTGRES_SOURCE.sha256}`,
  );
});

test("POSTGRES_SOURCE is the archive of the version that the executable holds", () => {
  expect(POSTGRES_SOURCE.url).toEndWith(`/v${BUILT_POSTGRES}/postgresql-${BUILT_POSTGRES}.tar.bz2`);
  expect(POSTGRES_SOURCE.sha256).toMatch(/^[0-9a-f]{64}$/);
});
