/** `claviger machines …` while a service runs. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { withDatabase } from "../../src/cli/run.ts";
import { setPlaces } from "../support/machines.ts";
import { until } from "../support/until.ts";
import { createIssuer, createTestInvocation, type RunOptions, refusalOf } from "./command_line.ts";
import { useServing } from "./use_command_line.ts";

const { line, service } = useServing([], { env: { CLAVIGER_LIMIT_VALIDATE: "0" } });
const issue = createIssuer(line);

/** Issues a key whose license has two places, and activates two machines. */
async function withTwo() {
  const key = await issue();
  const shown = await line.json(["keys", "show", key.id]);
  const { invocation } = createTestInvocation(line.folder, {});
  const place = { dataDir: line.dataDir, envFile: join(line.folder, "empty.env") };
  await withDatabase(invocation, place, ({ database }) =>
    setPlaces(database, shown.license_id.slice(4), { maxMachines: 2 }),
  );
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
          `${signed.expires_at}; if another machine needs a place, give the license more`,
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
