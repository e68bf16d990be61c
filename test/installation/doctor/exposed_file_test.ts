/** The file with a secret that every user of the host may read, of which `doctor` warns. */
import { describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findExposedFile } from "../../../src/installation/doctor/mod.ts";
import { readFindings } from "../../cli/command_line.ts";
import { useCommandLine } from "../../cli/use_command_line.ts";
import { useFolder } from "../../support/use_folder.ts";

const folder = useFolder(tmpdir());
chmodSync(folder, 0o755);
const closed = join(folder, "closed");
mkdirSync(closed);
const line = useCommandLine();

function write(path: string, text: string, mode: number): string {
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

const SECRET = "CLAVIGER_SECRET=0b0b\n";

describe("findExposedFile()", () => {
  const find = (envFile: string) =>
    findExposedFile({ env: {}, envFile, workingFolder: folder, isRoot: false });

  test.each([
    [0o644, SECRET, true],
    [0o604, "DATABASE_URL=postgres://me:word@db/c\n", true],
    [0o644, "DATABASE_URL=postgres://me@one,two/c?password=word\n", true],
    [0o644, "DATABASE_URL=postgres://me@db:5432/c\n", false],
    [0o644, "CLAVIGER_PORT=1\n", false],
    [0o640, SECRET, false],
  ])("judges settings of mode %o with %j", (mode, text, isExposed) => {
    const path = write(join(folder, "some.env"), text, mode);
    expect(find(path)).toBe(isExposed ? path : undefined);
  });

  test.each(["CLAVIGER_SECRET_FILE", "CLAVIGER_TLS_KEY", "CLAVIGER_GITHUB_PRIVATE_KEY_FILE"])(
    "finds the open file that %s names, and no missing one",
    (name) => {
      const secret = write(join(folder, "the-file"), "", 0o644);
      const path = write(join(folder, "some.env"), `${name}=the-file\n`, 0o644);
      expect(find(path)).toBe(secret);
      rmSync(secret);
      expect(find(path)).toBeUndefined();
    },
  );

  test("does not count an open file in a folder that others cannot enter", () => {
    const path = write(join(closed, "some.env"), SECRET, 0o644);
    chmodSync(closed, 0o750);
    expect(find(path)).toBeUndefined();
    chmodSync(closed, 0o755);
    expect(find(path)).toBe(path);
  });
});

test("doctor warns of settings with a secret that others may read, with the remedy", async () => {
  const file = write(join(folder, "some.env"), `CLAVIGER_SECRET=${"0b".repeat(32)}\n`, 0o644);
  const args = ["doctor", "--json", "--data-dir", line.dataDir, "--env-file", file];
  expect(readFindings(await line.run(args)).of("configuration")).toEqual({
    name: "configuration",
    state: "warn",
    message: `every user of this host may read ${file}, which has a secret`,
    remedy: `chgrp claviger ${file} && chmod 640 ${file}`,
  });
});
