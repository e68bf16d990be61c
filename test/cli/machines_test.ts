/** `claviger machines …` while a service runs. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { parseId } from "../../src/base/ids.ts";
import { withDatabase } from "../../src/cli/run.ts";
import { type Database, openSession } from "../../src/database/mod.ts";
import { stopWaiting } from "../admin/stop_waiting.ts";
import { countWaiting } from "../support/count_waiting.ts";
import { setPlaces, setSeen } from "../support/machines.ts";
import { until } from "../support/until.ts";
import {
  createIssuer,
  createTestInvocation,
  type RunOptions,
  refusalOf,
  usageErrorOf,
} from "./command_line.ts";
import { useServing } from "./use_command_line.ts";

const { line, service } = useServing([], { env: { CLAVIGER_LIMIT_VALIDATE: "0" } });
const issue = createIssuer(line);

function inDatabase(work: (database: Database) => Promise<void>): Promise<void> {
  const { invocation } = createTestInvocation(line.folder, {});
  const place = { dataDir: line.dataDir, envFile: join(line.folder, "empty.env") };
  return withDatabase(invocation, place, ({ database }) => work(database));
}

/** Lets machines be not seen for 40 days. */
const setUnseen = (ids: readonly string[]) =>
  inDatabase((database) =>
    setSeen(
      database,
      ids.map((id) => parseId("mch", id) ?? ""),
      40,
    ),
  );

/** Issues a key whose license has two places, and activates two machines. */
async function withTwo() {
  const key = await issue();
  const shown = await line.json(["keys", "show", key.id]);
  await inDatabase((database) => setPlaces(database, shown.license_id.slice(4), { maxMachines: 2 }));
  const activate = (fingerprint: string) =>
    service.post("/v1/machines/activate", { api_key: key.api_key, fingerprint, name: fingerprint });
  const ids: string[] = [];
  for (const fingerprint of ["workstation-1", "workstation-2"])
    ids.push((await activate(fingerprint)).body.machine_id);
  const [first = "", second = ""] = ids;
  return { activate, first, second, key, licenseId: shown.license_id, email: shown.email };
}

describe("claviger machines list", () => {
  test("shows the machines of a license, of a key and of an account, each within 80 columns", async () => {
    const { first, second, key, licenseId, email } = await withTwo();
    for (const filter of [
      ["--license", licenseId],
      ["--key", key.id],
      ["--account", email],
      ["--state", "active", "--key", key.id],
    ]) {
      const machines = await line.json(["machines", "list", ...filter]);
      expect(machines).toMatchObject([{ id: first }, { id: second }]);
    }
    expect(await line.json(["machines", "list", "--key", key.id, "--state", "ended"])).toEqual([]);
    const { out } = await line.here(["machines", "list", "--key", key.id], { columns: 80 });
    expect(Math.max(...out.split("\n").map((text) => text.length))).toBeLessThanOrEqual(80);
    expect(out).toContain(`${first}  active  a release`);
  });

  test("shows the machines that were not seen for so long", async () => {
    const { first, second, key } = await withTwo();
    const unseen = (span: string) => line.json(["machines", "list", "--key", key.id, "--unseen", span]);
    expect(await unseen("1h")).toEqual([]);
    await setUnseen([first]);
    expect(await unseen("30d")).toMatchObject([{ id: first }]);
    expect(await unseen("0d")).toMatchObject([{ id: first }, { id: second }]);
    expect(usageErrorOf(await line.here(["machines", "list", "--unseen", "soon"]))).toContain("--unseen");
  });

  test("says how to see further machines", async () => {
    const { first, second, key } = await withTwo();
    const page = ["machines", "list", "--key", key.id, "--limit", "1"];
    const { err } = await line.here(page);
    expect(err).toContain(`--after ${first}`);
    expect(await line.json([...page, "--after", first])).toMatchObject([{ id: second }]);
  });
});

describe("claviger machines release", () => {
  const release = (id: string, more: readonly string[] = [], options: RunOptions = {}) =>
    line.here(["machines", "release", id, ...more], options);

  test("only shows with --dry-run, and asks at a terminal, before it frees the place", async () => {
    const { activate, first, key } = await withTwo();
    expect((await release(first, ["--dry-run"])).out).toBe(
      `Would release ${first} (workstation-1) of ${(await line.json(["keys", "show", key.id])).email}: it is active\n`,
    );
    const refused = await release(first, [], { isTerminal: true, isTyped: true, input: "no\n" });
    expect(refused).toMatchObject({ status: 1, err: expect.stringContaining("Nothing was changed") });
    expect((await activate("workstation-3")).status).toBe(409);
    expect((await release(first, ["--reason", "lost"])).out).toBe(`Released ${first}: its place is free\n`);
    // The service learns of it within a second.
    await until(async () => (await activate("workstation-3")).status === 200);
    expect(await line.json(["machines", "show", first])).toMatchObject({ id: first, state: "released" });
    const [row] = await line
      .json(["audit", "--key", key.id, "--limit", "2"])
      .then((rows) => rows.filter(({ action }: { action: string }) => action === "machine.release"));
    expect(row).toMatchObject({ reason: "lost", after: { machine: first, state: "released" } });
  });

  test("refuses a machine whose place only a signed license holds, says until when, and changes nothing", async () => {
    const key = await issue();
    await line.json(["keys", "machines", key.id, "--max-machines", "1"]);
    const signed = await line.json(["licenses", "export", key.id, "--fingerprint", "mistyped-7"]);
    for (const more of [["--dry-run"], []]) {
      expect(refusalOf(await release(signed.machine_id, more))).toBe(
        `Cannot release ${signed.machine_id}: it is not active, and a license that was signed for it keeps its place until ` +
          `${signed.expires_at}; if another machine needs a place, give the license more, or free this one with ` +
          "`claviger machines free`",
      );
    }
    expect(await line.json(["machines", "show", signed.machine_id])).toMatchObject({ state: "offline" });
  });

  test("refuses a machine without a place, and an unknown one", async () => {
    const { first } = await withTwo();
    await release(first);
    for (const more of [[], ["--dry-run"]])
      expect(refusalOf(await release(first, more))).toBe("Cannot release machine: it holds no place");
    const unknown = `mch_${"0".repeat(32)}`;
    expect(refusalOf(await release(unknown))).toBe(`Cannot release machine: there is no machine ${unknown}`);
    expect(refusalOf(await line.here(["machines", "show", unknown]))).toBe(
      `Cannot show machine: there is no machine ${unknown}`,
    );
  });
});

describe("claviger machines release-all", () => {
  const releaseAll = (more: readonly string[], options: RunOptions = {}) =>
    line.here(["machines", "release-all", ...more], options);
  const stateOf = async (id: string) => (await line.json(["machines", "show", id])).state;

  test("says before what will happen, changes nothing with --dry-run or without a yes, and says what it changed", async () => {
    const { first, second, key } = await withTwo();
    await setUnseen([first, second]);
    const all = ["--unseen", "30d", "--key", key.id, "--reason", "the old laboratory"];
    const foreseen =
      "2 active machines of 1 license: 2 places become free at once, and none stays taken by a signed license";
    expect((await releaseAll([...all, "--dry-run"])).out).toBe(`Would release ${foreseen}\n`);
    expect(await line.json(["machines", "release-all", ...all, "--dry-run"])).toEqual({
      ...{ machines: 2, licenses: 1, free: 2, taken: 0, taken_until: null, more: false },
      ...{ ids: [first, second], dry_run: true },
    });
    const refused = await releaseAll(all, { isTerminal: true, isTyped: true, input: "no\n" });
    expect([refused.status, refused.out]).toEqual([1, ""]);
    expect(refused.err).toContain(`To release: ${foreseen}`);
    expect(refused.err).toContain(
      "Release 2 machines? Their programs get no place until they are activated again.",
    );
    expect([await stateOf(first), await stateOf(second)]).toEqual(["active", "active"]);

    const done = await releaseAll(all);

    expect(done).toMatchObject({
      status: 0,
      out: "Released 2 machines: 2 places are free, and none stays taken by a signed license\n",
      err: `To release: ${foreseen}\n`,
    });
    expect([await stateOf(first), await stateOf(second)]).toEqual(["released", "released"]);
    const rows = await line.json(["audit", "--key", key.id, "--action", "machine.release"]);
    expect(rows).toMatchObject(
      [second, first].map((machine) => ({
        reason: "the old laboratory",
        after: { machine, state: "released" },
      })),
    );
    expect((await releaseAll(all)).out).toBe("Nothing changed: no active machine meets the conditions\n");
  });

  test("releases at most so many, those that were activated first, and says that there are more", async () => {
    const { first, second, key } = await withTwo();
    const { out, err } = await releaseAll(["--key", key.id, "--limit", "1"]);
    expect(out).toStartWith("Released 1 machine: 1 place is free");
    expect(err).toContain(
      "More active machines meet the conditions: run the command again for the next ones\n",
    );
    expect([await stateOf(first), await stateOf(second)]).toEqual(["released", "active"]);
    expect(usageErrorOf(await releaseAll(["--key", key.id, "--limit", "501"]))).toContain(
      "It must be a whole number from 1 to 500",
    );
  });

  test("names a machine that could not be released, releases the others, and ends with 3", async () => {
    const [held, free] = [await withTwo(), await withTwo()];
    await setUnseen([held.first, free.first]);
    const { invocation } = createTestInvocation(line.folder, {});
    const place = { dataDir: line.dataDir, envFile: join(line.folder, "empty.env") };
    await withDatabase(invocation, place, async ({ address, database }) => {
      const session = openSession(address, { statementTimeoutMs: 30_000 });
      await session.connect();
      await session.sql`begin`;
      await session.sql`select from licenses where id = ${held.licenseId.slice(4)}::uuid for update`;
      const running = releaseAll(["--unseen", "30d"]);
      await until(async () => (await countWaiting(database)) > 0);
      await stopWaiting(session);
      const { status, out, err } = await running;
      await session.close();
      expect(status).toBe(3);
      expect(out).toEndWith("; not released: 1 machine\n");
      expect(err).toContain(`${held.first}: Cannot release machine: the database needs too long`);
      expect(err).toContain("Not released: 1 machine; run the command again");
    });
    expect([await stateOf(held.first), await stateOf(free.first)]).toEqual(["active", "released"]);
  });

  test("prints the result of each machine for programs", async () => {
    const { first, key } = await withTwo();
    expect(await line.json(["machines", "release-all", "--key", key.id, "--limit", "1"])).toEqual({
      ...{ released: 1, free: 1, taken: 0, taken_until: null, unchanged: 0, refused: 0, more: true },
      results: [{ id: first, state: "released", taken_until: null, changed: true, code: null, error: null }],
    });
  });

  test("needs a condition, and refuses an unknown account", async () => {
    const { first } = await withTwo();
    for (const none of [[], ["--limit", "1"], ["--dry-run"]])
      expect(usageErrorOf(await releaseAll(none))).toContain(
        "give at least one condition: --account, --license, --key, --name, --state, --unseen",
      );
    expect(refusalOf(await releaseAll(["--account", "nobody@example.org"]))).toContain("nobody@example.org");
    expect(await stateOf(first)).toBe("active");
  });
});

describe("claviger machines free", () => {
  const free = (id: string, more: readonly string[] = ["--reason", "burned"], options: RunOptions = {}) =>
    line.here(["machines", "free", id, ...more], options);

  test("frees the place of a lost file after a question that says until when the file works", async () => {
    const key = await issue();
    await line.json(["keys", "machines", key.id, "--max-machines", "1"]);
    const { machine_id: id, expires_at: end } = await line.json([
      ...["licenses", "export", key.id, "--fingerprint", "mistyped-7"],
    ]);
    const { email } = await line.json(["keys", "show", key.id]);
    expect(usageErrorOf(await free(id, []))).toContain("--reason");
    expect(usageErrorOf(await free(id, ["--reason", ""]))).toContain("--reason");
    const works = `The license that was signed for it works without a network until ${end}`;
    expect((await free(id, ["--reason", "burned", "--dry-run"])).out).toBe(
      `Would free the place of ${id} of ${email}. ${works}\n`,
    );
    const asked = await free(id, ["--reason", "burned"], { isTerminal: true, isTyped: true, input: "no\n" });
    expect(asked).toMatchObject({ status: 1, err: expect.stringContaining(works) });
    expect(await line.json(["machines", "show", id])).toMatchObject({ state: "offline", signed_until: end });

    expect((await free(id)).out).toBe(
      `Freed the place of ${id}. The license that was signed for it still works until ${end}\n`,
    );

    expect(await line.json(["machines", "show", id])).toMatchObject({
      state: "released",
      signed_until: null,
    });
    const [row] = await line.json(["audit", "--key", key.id, "--action", "machine.free"]);
    expect(row).toMatchObject({ reason: "burned", after: { machine: id, state: "released" } });
    const another = await line.json(["licenses", "export", key.id, "--fingerprint", "workstation-8"]);
    expect(another.machine_id).not.toBe(id);
    expect(await line.json(["machines", "free", another.machine_id, "--reason", "burned"])).toEqual({
      ...{ id: another.machine_id, state: "released", file_works_until: another.expires_at },
    });
  });

  test("refuses a machine whose place no signed license holds, and an unknown one", async () => {
    const { first } = await withTwo();
    for (const more of [[], ["--dry-run"]])
      expect(refusalOf(await free(first, ["--reason", "burned", ...more]))).toBe(
        "Cannot free the place of the machine: no signed license holds it; release the machine",
      );
    const unknown = `mch_${"0".repeat(32)}`;
    expect(refusalOf(await free(unknown))).toBe(
      `Cannot free the place of machine: there is no machine ${unknown}`,
    );
    expect(await line.json(["machines", "show", first])).toMatchObject({ state: "active" });
  });
});
