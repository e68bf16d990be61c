import { expect, test } from "bun:test";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findSecret } from "../../src/installation/mod.ts";
import { asNobody } from "../support/as_nobody.ts";
import { configOf } from "../support/config.ts";
import { isRoot } from "../support/is_root.ts";
import { useFolder } from "../support/use_folder.ts";

const asRoot = isRoot("a secret of root in the folder of another user");
const folder = useFolder();

test.skipIf(!asRoot)("findSecret() says how root gives a secret of root to the owner of the folder", () => {
  const path = join(folder, "secret");
  writeFileSync(path, "0".repeat(64), { mode: 0o600 });
  chmodSync(folder, 0o755);
  asNobody(() =>
    expect(findSecret(configOf({ CLAVIGER_DATA_DIR: folder }))).toMatchObject({
      sentence: `Cannot read the secret ${path}: this user may not read it; as root run \`chown --reference=${folder} ${path}\``,
    }),
  );
});
