/** `claviger audit --follow`: each row once and in order, through restarts of the service. */
import { afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { spawn, spawnSync } from "node:child_process";
import { hash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { SOURCE } from "../support/service_process.ts";
import { until } from "../support/until.ts";
import { useForAll } from "../support/use.ts";
import { createIssuer, type RunningService, usageErrorOf } from "./command_line.ts";
import { type Follower, startFollower } from "./follower.ts";
import { useCommandLine } from "./use_command_line.ts";

// Followers and services start again and again.
setDefaultTimeout(90_000);

const line = useCommandLine({ prepared: true });
const issue = createIssuer(line);
const place = () => ["--data-dir", line.dataDir, "--env-file", join(line.folder, "empty.env")];
let service: RunningService;
useForAll(async () => ({ close: async () => void (await service.stop()) }));
const followers: Follower[] = [];

beforeAll(async () => {
  service = await line.serve();
});
afterEach(async () => {
  for (const follower of followers.splice(0)) await follower.stop("SIGKILL");
});

function follow(...args: readonly string[]): Follower {
  const follower = startFollower([...SOURCE, "audit", "--follow", ...args, ...place()]);
  followers.push(follower);
  return follower;
}

/** The ids of the keys that were issued, in the order of the log. */
const keysOf = (follower: Follower) =>
  follower.lines().flatMap(({ action, key_id }) => (action === "key.issue" ? [key_id] : []));

describe("claviger audit --follow", () => {
  test("prints the rows that are written from now on, after a cursor alone, and reads on after any cursor", async () => {
    const before = await issue();
    const follower = follow("--json");
    const [start] = await follower.untilSeen(({ id, cursor }) => id === undefined && cursor !== "");
    expect(Object.keys(start ?? {})).toEqual(["cursor"]);
    const keys = [await issue(), await issue(), await issue()];
    await follower.untilSeen(({ key_id }) => key_id === keys[2]?.id);
    expect(keysOf(follower)).toEqual(keys.map(({ id }) => id));
    expect(await follower.stop()).toMatchObject({ status: 0 });
    expect(follower.err()).toBe("");
    const [listed] = await line.json(["audit", "--key", keys[2]?.id ?? ""]);
    const { cursor, ...row } = follower.lines().at(-1) ?? { cursor: "" };
    expect<unknown>(row).toEqual(listed);
    expect(follower.out().split("\n").slice(0, -1)).toSatisfy((all) =>
      all.every((text) => text.startsWith('{"cursor":"')),
    );

    for (const [index, { cursor }] of follower.lines().entries()) {
      const next = follow("--json", "--after", cursor);
      await next.untilSeen(({ key_id }) => key_id === keys[2]?.id || index === 3);
      expect(keysOf(next)).toEqual(keys.slice(index).map(({ id }) => id));
      if (index === 2) break;
    }
    const all = follow("--json", "--after", "start", "--action", "key.issue");
    await all.untilSeen(({ key_id }) => key_id === keys[2]?.id);
    expect(keysOf(all).slice(-4)).toEqual([before.id, ...keys.map(({ id }) => id)]);
    expect(cursor).not.toBe("");
  });

  test("prints only rows that meet the conditions, and for people a table that goes on", async () => {
    const key = await issue();
    const follower = follow("--after", "start", "--key", key.id);
    await until(() => follower.out().includes(key.id), { what: follower.err() });
    await issue();
    expect((await line.here(["keys", "suspend", key.id, "--reason", "unpaid"])).status).toBe(0);
    await until(() => follower.out().includes("unpaid"));
    const [heading, ...rows] = follower.out().trimEnd().split("\n");
    expect(heading).toMatch(/^ *ID +AT +ACTOR +ACTION +DETAILS/);
    expect(rows.map((row) => / (key\.\w+) /.exec(row)?.[1])).toEqual(["key.issue", "key.suspend"]);
    expect(await follower.stop("SIGINT")).toMatchObject({ status: 0 });
    expect(follower.out()).not.toContain("none");
  });

  test("waits while no service runs, keeps none from starting, and misses no row", async () => {
    const first = await issue();
    const follower = follow("--json", "--after", "start");
    await follower.untilSeen(({ key_id }) => key_id === first.id);
    await service.stop();
    await follower.untilSaid("Waiting: ");
    // A command runs the PostgreSQL inside itself.
    const meanwhile = await issue();
    const late = follow("--json", "--after", follower.lines().at(-1)?.cursor ?? "");
    await late.untilSaid("Waiting: ");
    service = await line.serve();
    const last = await issue();
    for (const each of [follower, late]) {
      await each.untilSeen(({ key_id }) => key_id === last.id);
      expect(keysOf(each).slice(-2)).toEqual([meanwhile.id, last.id]);
      expect(each.err()).toMatch(/^Waiting: [^\n]+\nReading on: the database answers again\n$/);
    }
    const ids = follower.lines().map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("waits in an empty folder, because the first service may still come", async () => {
    const empty = join(line.folder, "empty");
    mkdirSync(empty, { mode: 0o700 });
    const place = ["--data-dir", empty, "--env-file", join(line.folder, "empty.env")];
    const follower = startFollower([...SOURCE, "audit", "--follow", ...place]);
    followers.push(follower);
    await follower.untilSaid(`Waiting: Cannot use the database in ${empty}: no service runs there yet`);
    expect(await follower.stop()).toMatchObject({ status: 0 });
  });

  test("ends with status 4 for the cursor of another database, and prints nothing", async () => {
    const other = `${"0".repeat(32)}.855.1`;
    const follower = follow("--json", "--after", other);
    expect(await follower.ended).toBe(4);
    expect(follower.out()).toBe("");
    expect(follower.err()).toMatch(
      /^claviger: Cannot read on: the database was restored or replaced[^\n]+; begin again with `--after start`: [^\n]+\n$/,
    );
  });

  test("ends at once although the reader of its output takes nothing, and quietly when the reader is gone", async () => {
    const [bun = "", main = ""] = SOURCE;
    // More than a pipe holds.
    const many = Array.from(
      { length: 2_000 },
      (_, index) => `many-${index}@example.org,research,live,${hash("sha256", `many ${index}`)}`,
    );
    const csv = line.write("many.csv", `email,tier,mode,sha256\n${many.join("\n")}\n`);
    const imported = await line.here(["keys", "import", csv]);
    expect(imported).toMatchObject({ status: 0 });
    const args = [main, "audit", "--follow", "--json", "--after", "start", ...place()];
    const child = spawn(bun, args, { stdio: ["ignore", "pipe", "ignore"] });
    const ended = new Promise((resolve) => child.once("exit", (status) => resolve(status)));
    await new Promise((resolve) => child.stdout.once("readable", resolve));
    await Bun.sleep(1_500);
    const beganMs = performance.now();
    child.kill("SIGTERM");
    const limit = setTimeout(() => child.kill("SIGKILL"), 15_000);
    expect(await ended).toBe(0);
    clearTimeout(limit);
    expect(performance.now() - beganMs).toBeLessThan(10_000);
    const script = `"$@" | head -n 1`;
    const { status, stdout, stderr } = spawnSync("bash", [
      "-o",
      "pipefail",
      "-c",
      script,
      "bash",
      bun,
      ...args,
    ]);
    expect([status, stderr.toString()]).toEqual([0, ""]);
    expect(JSON.parse(stdout.toString())).toMatchObject({ id: 1 });
  });

  test("refuses what does not fit together", async () => {
    for (const [words, wrong] of [
      [["--follow", "--limit", "5"], "cannot be used with option '--limit <n>'"],
      [["--follow", "--after", "5"], "must be with --follow a cursor"],
      [["--after", "start"], "must be the id of a row without --follow"],
      [["--follow", "--after", "x"], "It must be the id of a row, or with --follow a cursor"],
    ] as const)
      expect(usageErrorOf(await line.here(["audit", ...words]))).toContain(wrong);
  });
});
