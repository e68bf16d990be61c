/** The finding of `doctor` about files in the data folder that another user left there. */
import { describe, expect, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../../src/base/clock.ts";
import { findSystemUser } from "../../../src/base/host/mod.ts";
import { examineHost } from "../../../src/installation/doctor/mod.ts";
import { configOf } from "../../support/config.ts";
import { isRoot } from "../../support/is_root.ts";
import { useFolder } from "../../support/use_folder.ts";

const asRoot = isRoot("doctor on a data folder with files of root");
const UID = 65_534;
const folder = useFolder();
const dataDir = join(folder, "data");

async function examineFolder(uid: number) {
  const config = configOf({ CLAVIGER_DATA_DIR: dataDir, CLAVIGER_PORT: "0" });
  process.seteuid?.(uid);
  try {
    const findings = await examineHost({ config, clock: systemClock });
    return findings.find(({ name }) => name === "data folder");
  } finally {
    process.seteuid?.(0);
  }
}

describe.skipIf(!asRoot)("claviger doctor and files of root", () => {
  test("warns the owner of the data folder, and says how root gives the files back", async () => {
    chmodSync(folder, 0o755);
    const models = join(dataDir, "models/ab");
    mkdirSync(models, { recursive: true, mode: 0o700 });
    for (const path of [dataDir, join(dataDir, "models"), models]) chownSync(path, UID, UID);
    // None is the service's: an operator's file, and a folder to which a link of the owner leads.
    writeFileSync(join(dataDir, "notes.txt"), "");
    mkdirSync(join(folder, "elsewhere"));
    writeFileSync(join(folder, "elsewhere/file"), "");
    const lead = (to: string) => {
      process.seteuid?.(UID);
      symlinkSync(to, join(dataDir, "postgres"));
      process.seteuid?.(0);
    };
    lead(join(folder, "elsewhere"));
    expect(await examineFolder(UID)).toMatchObject({ state: "ok" });

    writeFileSync(join(models, "file"), "");
    const owner = findSystemUser(UID)?.name ?? UID;
    expect(await examineFolder(UID)).toEqual({
      name: "data folder",
      state: "warn",
      message: `${join(models, "file")} does not belong to ${owner}, so the service may be unable to use it`,
      remedy: `chown -hR ${owner} ${dataDir}`,
    });
    // Root does not look there itself.
    expect(await examineFolder(0)).toMatchObject({ state: "ok" });
  });
});
