import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { followPath } from "../../../src/base/host/path_owner.ts";

const me = process.getuid?.() ?? 0;
const trustMe = { isTrusted: (uid: number) => uid === 0 || uid === me };
const trustRoot = { isTrusted: () => false };

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(realpathSync(tmpdir()), "claviger-path-"));
  mkdirSync(join(folder, "a/b"), { recursive: true });
  // Whatever umask the tests run with.
  for (const path of ["a", "a/b"]) chmodSync(join(folder, path), 0o755);
  writeFileSync(join(folder, "a/b/file"), "");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("followPath()", () => {
  test("finds an existing path, also through links", () => {
    symlinkSync("b", join(folder, "a/relative"));
    symlinkSync(join(folder, "a"), join(folder, "absolute"));
    const path = join(folder, "absolute/relative/../b/file");
    expect(followPath(path, trustMe)).toEqual({
      found: join(folder, "a/b/file"),
      uid: me,
      exists: true,
      changeable: undefined,
    });
  });

  test("stops at the nearest folder that exists", () => {
    expect(followPath(join(folder, "a/none/file"), trustMe)).toMatchObject({
      found: join(folder, "a"),
      uid: me,
      exists: false,
    });
    symlinkSync(join(folder, "none/file"), join(folder, "dangling"));
    expect(followPath(join(folder, "dangling"), trustMe)).toMatchObject({ found: folder });
  });

  test("names the first folder that belongs to another user", () => {
    expect(followPath(join(folder, "a/b/file"), trustRoot).changeable).toEqual({ path: "/", uid: 0 });
    const isTrusted = (uid: number) => uid === 0 && me !== 0;
    const { changeable } = followPath(join(folder, "a/b/file"), { isTrusted });
    expect(changeable).toEqual(me === 0 ? { path: "/", uid: 0 } : { path: folder, uid: me });
  });

  test.each([0o777, 0o770, 0o775])("names a folder of mode %o on the way, but not a sticky one", (mode) => {
    chmodSync(join(folder, "a"), mode);
    const path = join(folder, "a/b/file");
    expect(followPath(path, trustMe).changeable).toEqual({ path: join(folder, "a"), uid: undefined });
    chmodSync(join(folder, "a"), 0o1000 | mode);
    expect(followPath(path, trustMe).changeable).toBeUndefined();
  });

  test("checks the folder that a link leads to, and the folder that contains the link", () => {
    mkdirSync(join(folder, "open"));
    chmodSync(join(folder, "open"), 0o777);
    symlinkSync(join(folder, "a/b/file"), join(folder, "open/link"));
    expect(followPath(join(folder, "open/link"), trustMe).changeable?.path).toBe(join(folder, "open"));
    symlinkSync(join(folder, "open"), join(folder, "to-open"));
    expect(followPath(join(folder, "to-open/new"), trustMe).changeable?.path).toBe(join(folder, "open"));
  });

  test("names the last folder, even a sticky one, when its content must be safe too", () => {
    const path = join(folder, "a/b");
    chmodSync(path, 0o1777);
    expect(followPath(path, trustMe).changeable).toBeUndefined();
    expect(followPath(path, { ...trustMe, isFolder: true }).changeable).toEqual({ path, uid: undefined });
  });

  test("names the folder in which another user could create the missing folder", () => {
    const path = join(folder, "a/new");
    chmodSync(join(folder, "a"), 0o1777);
    expect(followPath(path, trustMe).changeable).toBeUndefined();
    expect(followPath(path, { ...trustMe, isFolder: true }).changeable?.path).toBe(join(folder, "a"));
  });

  test("fails for links that lead to each other", () => {
    symlinkSync(join(folder, "two"), join(folder, "one"));
    symlinkSync(join(folder, "one"), join(folder, "two"));
    expect(() => followPath(join(folder, "one"), trustMe)).toThrow("ELOOP");
  });
});
