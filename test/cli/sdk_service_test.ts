/** The clients of the page `sdk` against the service itself. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { type Places, setPlaces } from "../support/machines.ts";
import { until } from "../support/until.ts";
import { useTestService } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { createInstaller, LANGUAGES, type Language, withoutTimes } from "./sdk_languages.ts";

// A busy machine starts an interpreter in seconds.
setDefaultTimeout(120_000);

const service = useTestService();
const folder = useFolder();
const OTHER = { LICENSE_FINGERPRINT: "workstation-8" };

/** Issues a key whose license has places, and installs clients with it. */
async function installWith(places: Places) {
  const { apiKey, licenseUuid } = await service.issue();
  await setPlaces(service.database, licenseUuid, places);
  const install = createInstaller(folder, apiKey);
  return {
    client: (language: Language, more = {}) => install(language, service.url, more),
    post: (path: string) => service.post(path, { api_key: apiKey, fingerprint: "workstation-7" }),
  };
}

describe.each(LANGUAGES)("a client of the page `sdk`: $name", (language) => {
  test("waits for the seat of another one, gets it after the release, and gets it again after a release by others", async () => {
    const { client, post } = await installWith({ maxMachines: 1, seatMinutes: 5 });
    const [first, second] = [client(language), client(language, OTHER)];
    expect((await first.run("activate")).lines).toEqual([
      expect.stringMatching(/^activate: 200; may work until TIME; heartbeat in \d{2,3} s$/),
    ]);
    expect((await second.run("activate")).lines).toEqual([
      expect.stringMatching(/^activate: 409 MACHINE_LIMIT_REACHED; may not work; activate in 10 s$/),
    ]);
    expect(await first.run("release")).toMatchObject({
      status: 0,
      lines: ["release: 200; may not work; done"],
    });
    expect((await second.run("activate")).status).toBe(0);
    expect((await second.run("release")).status).toBe(0);

    expect((await first.run("activate")).status).toBe(0);
    const { machine_id } = first.readState();
    expect((await post("/v1/machines/release")).body).toEqual({ released: true, machine_id });
    const { client: running, lines, reading } = first.start("run");
    await until(() => lines.length === 2, { limitMs: 60_000 });
    running.kill();
    await reading;
    expect(lines.map(withoutTimes)).toEqual([
      "heartbeat: 404 MACHINE_NOT_FOUND; may not work; activate in 0 s",
      expect.stringMatching(/^activate: 200; may work until TIME; heartbeat in \d{2,3} s$/),
    ]);
    const { status, body } = await post("/v1/machines/heartbeat");
    expect({ status, machine: body.machine_id }).toEqual({
      status: 200,
      machine: first.readState().machine_id,
    });
  });

  test("asks every hour on a node-locked machine that checks in within 90 days, and works for seven days without an answer", async () => {
    const { client } = await installWith({ maxMachines: 1, seatMinutes: 129_600 });
    const checking = client(language);
    expect((await checking.run("activate")).lines).toEqual([
      "activate: 200; may work until TIME; heartbeat in 3600 s",
    ]);
    const state = checking.readState();
    expect(state.until - state.seen).toBeWithin(604_800 - 60, 604_800 + 1);
  });

  test("works with a node-locked machine, without a limit, and stops with a revoked key", async () => {
    const locked = await installWith({ maxMachines: 1 });
    const hourly = ["activate: 200; may work until TIME; heartbeat in 3600 s"];
    expect((await locked.client(language).run("activate")).lines).toEqual(hourly);
    expect((await locked.client(language, OTHER).run("activate")).lines).toEqual([
      "activate: 409 MACHINE_LIMIT_REACHED; may not work; activate in 10 s",
    ]);
    const uncounted = await installWith({});
    const client = uncounted.client(language);
    expect((await client.run("activate")).lines).toEqual(hourly);
    expect((await client.run("status")).out).toContain("machine none\n");
    expect((await uncounted.post("/v1/auth/revoke")).status).toBe(200);
    expect(await client.run("run")).toMatchObject({
      status: 1,
      lines: ["heartbeat: 401 INVALID_KEY; may not work; stop: The API key is invalid or inactive"],
    });
    expect((await client.run("status")).status).toBe(1);
  });
});
