import { afterEach, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readCommit, readSourceDate } from "../../src/build/commit.ts";
import { useFolder } from "../support/use_folder.ts";

const folder = useFolder();
const checkout = useFolder();
const given = process.env.SOURCE_DATE_EPOCH;
afterEach(() => setSourceDate(given));

function setSourceDate(value: string | undefined): void {
  if (value === undefined) delete process.env.SOURCE_DATE_EPOCH;
  else process.env.SOURCE_DATE_EPOCH = value;
}

function git(...args: string[]): string {
  const who = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"];
  const run = Bun.spawnSync(["git", ...who, ...args], { cwd: folder });
  if (run.exitCode !== 0) throw new Error(run.stderr.toString());
  return run.stdout.toString().trim();
}

test("readCommit() returns the commit of a checkout, and marks it when a file differs from the commit", () => {
  expect(readCommit(folder)).toBe("unknown");
  git("init", "-q");
  expect(readCommit(folder)).toBe("unknown");
  writeFileSync(join(folder, "a"), "1");
  git("add", "a");
  git("commit", "-q", "-m", "first");
  const commit = git("rev-parse", "HEAD").slice(0, 12);
  expect(readCommit(folder)).toBe(commit);
  writeFileSync(join(folder, "new"), "");
  expect(readCommit(folder)).toBe(`${commit} and changes`);
  rmSync(join(folder, "new"));
  writeFileSync(join(folder, "a"), "2");
  expect(readCommit(folder)).toBe(`${commit} and changes`);
});

test("readCommit() returns no commit when the sources were only unpacked inside another repository", () => {
  mkdirSync(join(folder, "unpacked"));
  expect(readCommit(join(folder, "unpacked"))).toBe("unknown");
});

test("readSourceDate() returns SOURCE_DATE_EPOCH, or else the time of the commit, or else 0", () => {
  const date = (...args: string[]) => {
    const env = { ...process.env, GIT_COMMITTER_DATE: "1800000000 +0300" };
    const who = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"];
    expect(Bun.spawnSync(["git", ...who, ...args], { cwd: checkout, env }).exitCode).toBe(0);
  };
  setSourceDate("");
  expect(readSourceDate(checkout)).toBe(0);
  date("init", "-q");
  expect(readSourceDate(checkout)).toBe(0);
  date("commit", "-q", "--allow-empty", "-m", "first");
  expect(readSourceDate(checkout)).toBe(1_800_000_000);
  setSourceDate("1700000000");
  expect(readSourceDate(checkout)).toBe(1_700_000_000);
  for (const wrong of ["yesterday", "-1", "1.5", "17000000000"]) {
    setSourceDate(wrong);
    expect(() => readSourceDate(checkout)).toThrow(
      "SOURCE_DATE_EPOCH must be a number of seconds since 1970",
    );
  }
});
