/** A restore whose commit gets no answer: its rows may be there, so its note stays. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import type { RestoreNote } from "../../../src/database/embedded/mod.ts";
import { createTestDatabase } from "../../support/database.ts";
import { addressThrough, whereIs } from "../../support/faulty_proxy.ts";
import { issue, sentenceOf } from "../../support/issue.ts";
import { startMessageProxy } from "../../support/message_proxy.ts";
import { useFolder } from "../../support/use_folder.ts";
import { backUp, prove, tryRestore } from "./backup_kit.ts";

const folder = useFolder();

/** Returns a note that remembers the steps that were taken with it. */
function rememberSteps() {
  const steps: string[] = [];
  const step = (name: keyof RestoreNote) => () => Promise.resolve(void steps.push(name));
  return { steps, note: { leave: step("leave"), takeBack: step("takeBack"), remove: step("remove") } };
}

test("restoreBackup() keeps its note if the commit gets no answer, and takes it back if nothing was committed", async () => {
  await using source = await createTestDatabase();
  await issue(source.database);
  const path = join(folder, "saved.tar.zst");
  await backUp(source.address, path);
  const proven = await prove(path);
  await using target = await createTestDatabase({ empty: true });
  const proxy = await startMessageProxy(whereIs(target.address));
  try {
    const address = { url: addressThrough(target.address, `127.0.0.1:${proxy.port}`) };
    const before = rememberSteps();
    const refused = await tryRestore(address, proven, {
      note: before.note,
      beforeCommit() {
        throw new Error("stopped");
      },
    }).then(sentenceOf, String);
    expect(refused).toContain("stopped");
    expect(before.steps).toEqual(["leave", "takeBack"]);

    const lost = rememberSteps();
    const unknown = await tryRestore(address, proven, {
      note: lost.note,
      // The next answer of the server is that of the commit.
      beforeCommit: () => proxy.arm({ message: "server C", action: "cut" }),
    }).then(sentenceOf, String);
    expect(proxy.fired()).toBe(1);
    expect(unknown).toContain("The database does not answer");
    expect(lost.steps).toEqual(["leave"]);
    proxy.release();
    expect(await target.database.query((sql) => sql`select hint from keys`)).toHaveLength(1);
  } finally {
    await proxy.close();
  }
});
