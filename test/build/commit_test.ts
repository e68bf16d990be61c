import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readCommit } from "../../src/build/commit.ts";

const folder = mkdtempSync(join(tmpdir(), "claviger-commit-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

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
