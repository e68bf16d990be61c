/** Tests that the same source gives the same executable, wherever and whenever it is built. */
import { expect, test } from "bun:test";
import { cpSync, existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { builtPostgres } from "../../src/base/platform/bun/pack_postgres.ts";
import { copyCheckout } from "../build/copy_checkout.ts";
import { builtExecutable } from "./executable.ts";
import { isBuilt } from "./installed.ts";

test.skipIf(!isBuilt)(
  "the executable is equal byte for byte to one that is built anew in another folder",
  () => {
    const copy = copyCheckout("a-folder-with-a-longer-name");
    try {
      // To build it takes minutes; make prove-release builds it twice, too.
      const built = builtPostgres();
      if (existsSync(built)) cpSync(built, join(copy.folder, ".cache", basename(built)), { recursive: true });
      const build = Bun.spawnSync([process.execPath, "src/build/executable.ts"], {
        cwd: copy.folder,
        env: { ...process.env, TZ: "Asia/Kathmandu" },
      });
      expect([build.exitCode, build.stderr.toString()]).toEqual([0, expect.any(String)]);
      const [one, other] = [builtExecutable, join(copy.folder, "dist/claviger")].map((path) =>
        readFileSync(path),
      );
      // Not toEqual(): it would print a hundred megabytes.
      expect(one?.equals(other ?? new Uint8Array())).toBe(true);
    } finally {
      copy.remove();
    }
  },
  900_000,
);
