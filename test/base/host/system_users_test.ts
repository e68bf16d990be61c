/** How users are found by `getent`. Each test has its own folder with scripts in place of this host's tools. */
import { afterEach, beforeEach, describe, expect, spyOn, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { existsSystemGroup, findSystemUser, findTool } from "../../../src/base/host/system_users.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { findClusterUser } from "../../../src/database/embedded/_cluster_user.ts";
import { layoutOf } from "../../../src/database/embedded/_layout.ts";
import { isRoot } from "../../support/is_root.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "claviger-users-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Writes a script that runs in place of a tool. */
function standIn(name: string, script: string): void {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
}

/** A host with one user and one group. systemd makes them while a service runs, so no file contains them. */
const DYNAMIC = `case "$1 $2" in
  "passwd claviger" | "passwd 65046") echo 'claviger:x:65046:65047:Dynamic User:/:/usr/sbin/nologin' ;;
  "group claviger") echo 'claviger:x:65047:' ;;
  *) exit 2 ;;
esac`;

describe("findSystemUser()", () => {
  const user = { name: "claviger", uid: 65_046, gid: 65_047 };

  test("finds a user that no file contains, by name and by number", () => {
    standIn("getent", DYNAMIC);
    expect(findSystemUser("claviger", [folder])).toEqual(user);
    expect(findSystemUser(65_046, [folder])).toEqual(user);
    expect(existsSystemGroup("claviger", [folder])).toBe(true);
  });

  test("finds no user when getent finds none, even if the files contain one", () => {
    standIn("getent", DYNAMIC);
    expect(findSystemUser("root", [folder])).toBeUndefined();
    expect(existsSystemGroup("root", [folder])).toBe(false);
  });

  test("reads the files if getent is not installed or fails", () => {
    const root = { name: "root", uid: 0, gid: 0 };
    expect(findSystemUser("root", [folder])).toEqual(root);
    standIn("getent", "exit 127");
    expect(findSystemUser(0, [folder])).toEqual(root);
    expect(findSystemUser("", [folder])).toBeUndefined();
    expect(findSystemUser("0", [folder])).toBeUndefined();
    expect(existsSystemGroup("root", [folder])).toBe(true);
  });

  test("finds the tools and users of this host", () => {
    expect(findTool("sh")).toEndWith("/bin/sh");
    expect(findSystemUser("root")).toEqual({ name: "root", uid: 0, gid: 0 });
    expect(findSystemUser("no-such-user")).toBeUndefined();
  });
});

describe.skipIf(!isRoot("findClusterUser()"))("findClusterUser(), as root in a folder of root,", () => {
  function clusterUser() {
    const dataDir = join(folder, "data");
    mkdirSync(dataDir);
    return findClusterUser(layoutOf(dataDir), [folder]);
  }
  const calls = () => readFileSync(join(folder, "calls"), "utf8");

  test("uses the user claviger of a running service, and creates none", () => {
    standIn("getent", DYNAMIC);
    standIn("useradd", `echo "$*" >> ${folder}/calls`);
    expect(clusterUser()).toMatchObject({ uid: 65_046, gid: 65_047 });
    expect(existsSync(join(folder, "calls"))).toBe(false);
  });

  test("creates a missing user, in the existing group of that name", () => {
    standIn("getent", `[ "$1" = group ] || [ -e ${folder}/calls ] || exit 2\necho claviger:x:990:990::/:`);
    standIn("useradd", `echo "$*" >> ${folder}/calls`);
    expect(clusterUser()).toMatchObject({ uid: 990, gid: 990 });
    expect(calls()).toBe(
      "--system --no-create-home --gid claviger --home-dir /nonexistent --shell /bin/false claviger\n",
    );
  });

  test("reports the error of the first tool, and runs no other tool", () => {
    standIn("getent", "exit 2");
    standIn("useradd", `echo "useradd: user 'claviger' already exists" >&2; exit 9`);
    standIn("adduser", `echo "$*" >> ${folder}/calls; echo "Option s is ambiguous" >&2; exit 1`);
    const refusal = clusterUser();
    expect(isRefusal(refusal) && refusal.sentence).toBe(
      "Cannot create the user claviger, which is needed to run PostgreSQL: useradd: user 'claviger' already " +
        "exists. Create it (useradd --system claviger) or start as another user than root",
    );
    expect(existsSync(join(folder, "calls"))).toBe(false);
  });

  test("creates the user with BusyBox if useradd is not installed", () => {
    standIn("getent", `[ "$1" = passwd ] && [ -e ${folder}/calls ] || exit 2\necho claviger:x:100:101::/:`);
    standIn("adduser", `echo "$*" >> ${folder}/calls`);
    expect(clusterUser()).toMatchObject({ uid: 100, gid: 101 });
    expect(calls()).toBe("-S -D -H -h /nonexistent -s /bin/false claviger\n");
  });

  test("says that no tool is installed, or that a tool failed without a message", () => {
    standIn("getent", "exit 2");
    const none = findClusterUser(layoutOf(folder), [folder]);
    expect(isRefusal(none) && none.sentence).toContain("neither useradd nor adduser is installed");
    standIn("useradd", "exit 1");
    const silent = clusterUser();
    expect(isRefusal(silent) && silent.sentence).toContain(`${folder}/useradd ended with 1`);
  });
});

test("findClusterUser() refuses a user without an entry only where a database has to be made", () => {
  standIn("getent", DYNAMIC);
  const layout = layoutOf(join(folder, "data"));
  const asUser = (uid: number) => {
    using user = spyOn(process, "getuid");
    user.mockReturnValue(uid);
    return findClusterUser(layout, [folder]);
  };
  expect(asUser(65_046)).toBeUndefined();
  expect(asUser(1_500)).toMatchObject({
    code: "INVALID_REQUEST",
    sentence: expect.stringContaining(
      "Cannot make a database as user 1500: the user has no entry in /etc/passwd",
    ),
  });
  mkdirSync(layout.cluster, { recursive: true });
  const uid = process.getuid?.() || 1_500;
  chownSync(layout.cluster, uid, process.getgid?.() ?? uid);
  expect(asUser(uid)).toBeUndefined();
});
