/** Root, and any other user, in the data folder of somebody else; and root in folders of its own. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import { spawnService } from "../support/service_process.ts";
import { until } from "../support/until.ts";
import { builtExecutable, START_LIMIT_MS } from "./executable.ts";
import { TEST_LIMIT_MS } from "./installed.ts";
import { canActAsBoth, createTwoUsers, NOBODY, ROOT, type TwoUsers, type User } from "./two_users.ts";

setDefaultTimeout(TEST_LIMIT_MS);

/** A third user, who is neither root nor the owner of the data folder. */
const THIRD: User = { uid: 54_321, gid: 54_321 };

describe.skipIf(!canActAsBoth)("the data folder of another user", () => {
  let users: TwoUsers;
  let backup: string;
  beforeAll(async () => {
    users = createTwoUsers();
    backup = join(users.folder, "b.tar.zst");
    const own = ["--data-dir", join(users.folder, "own"), "--env-file", "empty.env"];
    for (const args of [["migrate"], ["keys", "issue", "--email", "a@example.org", "--tier", "free"]])
      expect(await users.run(ROOT, [...args, ...own])).toMatchObject({ status: 0 });
    users.shell(ROOT, "umask 077; openssl rand -hex 32 > own/secret");
    expect(await users.run(ROOT, ["backup", backup, "--with-secret", ...own])).toMatchObject({ status: 0 });
    users.shell(ROOT, "chmod 644 b.tar.zst; mkdir -m 1777 sticky");
  });
  afterAll(() => users.remove());
  beforeEach(() => void users.shell(ROOT, "rm -rf sticky/*"));

  // An attacker has made the folder of the rehearsal first, and may have put something into it.
  test.each([
    ["an empty folder", "mkdir -m 711 sticky/rehearsal"],
    ["a folder that everybody can write to", "mkdir sticky/rehearsal; chmod 777 sticky/rehearsal"],
    ["a link to such a folder", "mkdir -m 711 sticky/theirs; ln -s theirs sticky/rehearsal"],
    [
      "a folder with a link to a file of root",
      "mkdir sticky/rehearsal; ln -s ../../own/secret sticky/rehearsal/lock",
    ],
  ])("gets no secret, backup or setting of root or of another user: %s", async (_, plant) => {
    users.shell(NOBODY, plant);
    const look = () => users.shell(ROOT, "find sticky | sort; stat -c '%y %s' sticky/*/ own/secret");
    const before = look();
    const place = ["--data-dir", join(users.folder, "sticky/rehearsal"), "--env-file", "empty.env"];
    for (const user of [ROOT, THIRD]) {
      for (const command of [["restore", backup], ["keys", "list"], ["doctor"], ["serve", "--port", "0"]]) {
        const ended = await users.run(user, [...command, ...place]);
        expect(ended).toMatchObject({ status: command[0] === "serve" ? 78 : 1, out: "" });
        const isRestore = command[0] === "restore";
        const words = isRestore ? ["restore", "-"] : command;
        const input = isRestore ? ["<", backup] : [];
        const typed = [builtExecutable, ...words, ...place, ...input].join(" ");
        expect(ended.err).toMatch(
          /^claviger: Cannot work in the data folder [^\n]+ it belongs to user nobody, /,
        );
        // Only root may use runuser, which every host has.
        const become = user === ROOT ? "runuser -u nobody --" : "sudo -u nobody";
        expect(ended.err).toEndWith(`; run \`${become} ${typed}\`\n`);
      }
    }
    expect(look()).toBe(before);
  });

  test("is refused to root also with an external database, and with the user's arguments quoted", async () => {
    users.shell(NOBODY, "mkdir -m 711 sticky/rehearsal");
    const env = { DATABASE_URL: "postgres://u:hidden@127.0.0.1:1/x", CLAVIGER_SECRET: "0b".repeat(32) };
    const args = ["models", "verify", "--data-dir", "sticky/rehearsal", "--env-file", "empty.env"];
    const { err } = await users.run(ROOT, args, { env });
    expect(err).toEndWith(`; run \`runuser -u nobody -- ${builtExecutable} ${args.join(" ")}\`\n`);
    const quoted = ["accounts", "update", "a@example.org", "--name", "Ada's lab", ...args.slice(2)];
    expect((await users.run(ROOT, quoted)).err).toContain(`--name 'Ada'\\''s lab' --data-dir `);
  });

  test("in a folder of another user, which could be renamed, is refused to root", async () => {
    users.shell(NOBODY, "mkdir sticky/above");
    users.shell(ROOT, "cp -a own sticky/above/data");
    const place = ["--data-dir", "sticky/above/data", "--env-file", "empty.env"];
    const { status, err } = await users.run(ROOT, ["keys", "list", ...place]);
    expect({ status, err }).toMatchObject({
      status: 1,
      err: expect.stringMatching(/above belongs to user nobody/),
    });
  });

  test("and root's own: a rehearsal in a sticky folder works, closed to others, while PostgreSQL runs as another user", async () => {
    const place = ["--data-dir", "sticky/rehearsal", "--env-file", "empty.env"];
    expect(await users.run(ROOT, ["restore", backup, ...place])).toMatchObject({ status: 0, err: "" });
    expect((await users.run(ROOT, ["keys", "list", ...place])).out).toContain("a@example.org");
    const modeOf = (name: string) => statSync(join(users.folder, "sticky/rehearsal", name));
    expect([modeOf("").uid, modeOf("").mode & 0o777, modeOf("secret").mode & 0o777]).toEqual([
      0, 0o711, 0o600,
    ]);
    expect(modeOf("postgres").uid).not.toBe(0);
  });

  test("closes its own user's open folder with a line in the log, while the service runs", async () => {
    users.shell(NOBODY, "mkdir home/data; chmod 777 home/data");
    const args = ["--data-dir", join(users.home, "data"), "--env-file", join(users.folder, "empty.env")];
    const command = [
      "timeout",
      "--foreground",
      "--kill-after=5",
      "90",
      builtExecutable,
      "serve",
      "--port",
      "0",
      ...args,
    ];
    const service = spawnService(command, {
      ...{ user: NOBODY, cwd: "/", env: {}, limitMs: START_LIMIT_MS },
    });
    try {
      await service.untilPrinted(/Its data is in/);
      // The log comes by another pipe, and may come later.
      const closed = / warn +The data folder was closed: other users could write to it/;
      await until(() => closed.test(service.err()));
      expect(statSync(join(users.home, "data")).mode & 0o777).toBe(0o700);
      expect(await users.run(NOBODY, ["keys", "list", ...args])).toMatchObject({ status: 0, err: "" });
      expect(await users.run(ROOT, ["keys", "list", ...args])).toMatchObject({ status: 1, out: "" });
    } finally {
      expect(await service.stop()).toBe(0);
    }
    expect(users.shell(ROOT, "find home ! -uid 65534")).toBe("");
  });
});
