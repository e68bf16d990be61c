/** POST /v1/machines/list, and POST /v1/machines/release with the id of a machine: what a customer manages. */
import { describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import type { Database } from "../../src/database/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { FINGERPRINT, issuePlaces, type Places, setEnd, setPlaces } from "../support/machines.ts";
import { type JsonResponse, limitsOf, startTestService } from "../support/service.ts";
import { useForAll, useTestService } from "../support/use.ts";

const service = useTestService();
/** A second service on the same database, like another process of one installation. */
const other = useForAll(() => startTestService({ on: service.testDatabase }));
const limited = useTestService({ config: { limits: { ...limitsOf(0), machine_list: 2 } } });

const DAY_SECONDS = 86_400;
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);

interface Own {
  readonly self_releases?: number;
  readonly shows_machines?: boolean;
}

/** Issues a key whose license has places and the values `own`. */
async function issueWith(places: Places, own: Own = {}) {
  const issued = await issuePlaces(service, places);
  const { licenseUuid } = issued;
  if (Object.keys(own).length > 0)
    await service.database.query(
      (sql) => sql`update licenses set ${sql({ ...own })} where id = ${licenseUuid}::uuid`,
    );
  return issued;
}

type Issued = Awaited<ReturnType<typeof issueWith>>;

/** Activates so many machines of a license, and returns their ids in the order of the list. */
async function activate({ post }: Issued, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 1; index <= count; index++) {
    const { status, body } = await post("activate", {
      fingerprint: `machine-${index}`,
      name: `laptop ${index}`,
    });
    expect(status).toBe(200);
    ids.push(body.machine_id);
  }
  return ids;
}

const list = async ({ post }: Issued, fields = {}) => (await post("list", fields)).body;
const minutesUntil = (time: string) => (Date.parse(time) - Date.now()) / 60_000;
const uuidOf = (id: string | undefined) => parseId("mch", id ?? "") ?? "";

interface LoggedRelease {
  readonly actor: string;
  readonly door: string;
  readonly request: string | null;
  readonly keyUuid: string;
  readonly before: object;
  readonly after: object;
  readonly reason: string | null;
}

/** Returns what the audit log says of releases of a license. */
async function listReleases(database: Database, { licenseUuid }: Issued): Promise<LoggedRelease[]> {
  return await database.query<LoggedRelease>(
    (sql) => sql`
      select actor, door, request, key_id as "keyUuid", before, after, reason from audit
       where action = 'machine.release' and license_id = ${licenseUuid}::uuid order by id`,
  );
}

describe("POST /v1/machines/list", () => {
  test("answers with the machines that hold a place, the places, and the releases by id", async () => {
    const license = await issueWith({ maxMachines: 3 });
    const { body } = await license.post("activate", {
      fingerprint: FINGERPRINT,
      name: "Ada",
      platform: "linux",
    });
    const listed = await license.post("list", {});
    expect(listed.status).toBe(200);
    expect(listed.body).toEqual({
      machines: [
        {
          machine_id: body.machine_id,
          name: "Ada",
          platform: "linux",
          state: "active",
          activated_at: TIME,
          last_seen_at: TIME,
          expires_at: null,
          taken_until: null,
        },
      ],
      next: null,
      places: { limit: 3, used: 1 },
      self_releases: { limit: 3, used: 0, days: 30 },
    });
  });

  test("shows the end of a seat, and until when a signed license holds a place", async () => {
    const license = await issueWith({ maxMachines: 2, seatMinutes: 30 });
    const [, offline] = await activate(license, 2);
    await setEnd(service.database, uuidOf(offline), { signed_until: 1_000 });
    await license.post("release", { fingerprint: "machine-2" });
    const { machines, places, self_releases } = await list(license);
    const [seat, signed] = machines;
    expect(minutesUntil(seat.expires_at)).toBeWithin(28, 31);
    expect(minutesUntil(signed.taken_until)).toBeWithin(998, 1_001);
    expect(machines).toMatchObject([
      { state: "active", taken_until: seat.expires_at },
      { machine_id: offline, state: "offline", expires_at: null },
    ]);
    expect(places).toEqual({ limit: 2, used: 2 });
    expect(self_releases).toEqual({ limit: 20, used: 0, days: 1 });
  });

  test("shows no machine of another license, and none that holds no place any more", async () => {
    const license = await issueWith({ maxMachines: 3, seatMinutes: 30 });
    const stranger = await issueWith({ maxMachines: 3 });
    const [, ended, active] = await activate(license, 3);
    const [own] = await activate(stranger, 1);
    await license.post("release", { fingerprint: "machine-1" });
    // No statement has noted this end yet.
    await setEnd(service.database, uuidOf(ended), { active_until: -1 });
    expect((await list(license)).machines).toMatchObject([{ machine_id: active }]);
    expect((await list(license)).places).toEqual({ limit: 3, used: 1 });
    expect((await list(stranger)).machines).toMatchObject([{ machine_id: own }]);
    expect((await list(stranger, { after: "mch_00000000000000000000000000000000" })).machines).toHaveLength(
      1,
    );
  });

  test("shows names of node-locked machines, and of seats only if the license says so", async () => {
    for (const [places, own, name] of [
      [{ maxMachines: 1 }, {}, "laptop 1"],
      [{ maxMachines: 1, seatMinutes: 1_441 }, {}, "laptop 1"],
      [{ maxMachines: 1, seatMinutes: 1_440 }, {}, null],
      [{ maxMachines: 1, seatMinutes: 5 }, { shows_machines: true }, "laptop 1"],
      [{ maxMachines: 1 }, { shows_machines: false }, null],
    ] as const) {
      const license = await issueWith(places, own);
      await license.post("activate", { fingerprint: "machine-1", name: "laptop 1", platform: "linux" });
      expect((await list(license)).machines).toMatchObject([{ name, platform: "linux", state: "active" }]);
    }
  });

  test("has pages, each after the last machine of the page before", async () => {
    const license = await issueWith({ maxMachines: 5 });
    const ids = await activate(license, 5);
    const pages: string[][] = [];
    let after: string | null = null;
    do {
      const page = await list(license, { limit: 2, after });
      pages.push(page.machines.map(({ machine_id }: { machine_id: string }) => machine_id));
      expect(page.places).toEqual({ limit: 5, used: 5 });
      after = page.next;
    } while (after !== null);
    expect(pages).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)]);
    expect(await list(license, { limit: 5 })).toMatchObject({ next: null });
    expect(await list(license, { after: ids[4] })).toMatchObject({
      machines: [],
      next: null,
      places: { used: 5 },
    });
  });

  test("is in one order whatever the states, and has at most 100 machines if no limit is given", async () => {
    const license = await issueWith({ maxMachines: 101 });
    const ids = await activate(license, 101);
    for (const id of ids.slice(0, 50)) await setEnd(service.database, uuidOf(id), { signed_until: 10 });
    for (let index = 1; index <= 50; index += 2)
      await license.post("release", { fingerprint: `machine-${index}` });
    const page = await list(license);
    expect(page.machines.map(({ machine_id }: { machine_id: string }) => machine_id)).toEqual(
      ids.slice(0, 100),
    );
    expect(page.machines.slice(0, 3)).toMatchObject([
      { state: "offline" },
      { state: "active" },
      { state: "offline" },
    ]);
    expect(page.next).toBe(ids[99]);
    expect((await list(license, { limit: 3 })).machines).toEqual(page.machines.slice(0, 3));
    expect((await list(license, { limit: 200 })).machines).toHaveLength(101);
  });

  test("is empty for a license that does not count machines, also if it did", async () => {
    const license = await issueWith({ maxMachines: 1 });
    const [id] = await activate(license, 1);
    await setEnd(service.database, uuidOf(id), { signed_until: 1_000 });
    await setPlaces(service.database, license.licenseUuid, { maxMachines: null });
    await license.post("activate");
    expect(await list(license)).toEqual({
      machines: [],
      next: null,
      places: { limit: null, used: 0 },
      self_releases: { limit: 3, used: 0, days: 30 },
    });
  });

  test("refuses a page that is too large, and a position that is no machine", async () => {
    const { post } = await issueWith({ maxMachines: 1 });
    for (const [fields, error] of [
      [{ limit: 0 }, "limit must be a whole number from 1 to 200"],
      [{ limit: 201 }, "limit must be a whole number from 1 to 200"],
      [{ limit: "5" }, "limit must be a whole number from 1 to 200"],
      [{ after: "mch_1" }, "after must be mch_ and 32 hexadecimal digits"],
    ] as const) {
      const refused = await post("list", fields);
      expectRefusal(refused, 400, "INVALID_REQUEST");
      expect(refused.body.error).toBe(error);
    }
  });

  test("counts in a window of its own", async () => {
    const { post } = await issuePlaces(limited, { maxMachines: 1 });
    for (const status of [200, 200, 429]) expect((await post("list", {})).status).toBe(status);
    expect((await post("activate")).status).toBe(200);
  });
});

describe("POST /v1/machines/release by id", () => {
  test("releases another machine, and the audit log says which key did it, and from where", async () => {
    const license = await issueWith({ maxMachines: 2 });
    const [first] = await activate(license, 2);
    const { status, body, headers } = await license.post("release", { machine_id: first });
    expect({ status, body }).toEqual({
      status: 200,
      body: { released: true, machine_id: first, state: "released", taken_until: null },
    });
    expectRefusal(await license.post("heartbeat", { fingerprint: "machine-1" }), 404, "MACHINE_NOT_FOUND");
    expect((await license.post("heartbeat", { fingerprint: "machine-2" })).status).toBe(200);
    expect(await list(license)).toMatchObject({
      machines: [{ name: "laptop 2" }],
      places: { limit: 2, used: 1 },
      self_releases: { limit: 3, used: 1, days: 30 },
    });
    expect(await listReleases(service.database, license)).toEqual([
      {
        actor: expect.stringMatching(/^http:/),
        door: "client",
        request: headers.get("x-request-id"),
        keyUuid: license.keyUuid,
        before: { machine: first, state: "active" },
        after: { machine: first, state: "released" },
        reason: null,
      },
    ]);
  });

  test("says until when a signed license holds the place of the machine that it released", async () => {
    const license = await issueWith({ maxMachines: 1 });
    const [machine_id] = await activate(license, 1);
    await setEnd(service.database, uuidOf(machine_id), { signed_until: 1_000 });
    const { body } = await license.post("release", { machine_id });
    expect(minutesUntil(body.taken_until)).toBeWithin(998, 1_001);
    expect(body).toEqual({ released: true, machine_id, state: "offline", taken_until: TIME });
    const [row] = await listReleases(service.database, license);
    expect(row?.after).toMatchObject({
      machine: machine_id,
      state: "offline",
      taken_until: expect.any(String),
    });
  });

  test("refuses a machine that only a signed license holds, says until when, and counts nothing", async () => {
    const license = await issueWith({ maxMachines: 1 });
    const [machine_id] = await activate(license, 1);
    await setEnd(service.database, uuidOf(machine_id), { signed_until: 1_000 });
    expect((await license.post("release", { fingerprint: "machine-1" })).status).toBe(200);
    const before = await list(license);
    const refused = await license.post("release", { machine_id });
    expectRefusal(refused, 404, "MACHINE_NOT_FOUND");
    expect(refused.body.error).toBe(
      `Cannot release machine: it is not active, and the license that was signed for it holds its place until ${before.machines[0].taken_until}`,
    );
    expect(await list(license)).toEqual(before);
    expect(before.self_releases).toEqual({ limit: 3, used: 0, days: 30 });
    expect(await listReleases(service.database, license)).toEqual([]);
  });

  test("does not know a machine of another license from one that is not there, and counts neither", async () => {
    const [license, stranger] = [await issueWith({ maxMachines: 1 }), await issueWith({ maxMachines: 2 })];
    const [machine_id, offline] = await activate(stranger, 2);
    await setEnd(service.database, uuidOf(offline), { signed_until: 1_000 });
    await stranger.post("release", { fingerprint: "machine-2" });
    const answers: JsonResponse[] = [];
    for (const id of [machine_id, offline, "mch_019a0000000070008000000000000000"])
      answers.push(await license.post("release", { machine_id: id }));
    for (const answer of answers) expectRefusal(answer, 404, "MACHINE_NOT_FOUND");
    expect(new Set(answers.map(({ body }) => body.error)).size).toBe(1);
    expect((await list(license)).self_releases.used).toBe(0);
    expect((await list(stranger)).machines).toMatchObject([
      { machine_id, state: "active" },
      { state: "offline" },
    ]);
  });

  test("refuses a machine that is not active any more", async () => {
    const license = await issueWith({ maxMachines: 1, seatMinutes: 5 });
    const [machine_id] = await activate(license, 1);
    await setEnd(service.database, uuidOf(machine_id), { active_until: -1 });
    expectRefusal(await license.post("release", { machine_id }), 404, "MACHINE_NOT_FOUND");
    expect((await list(license)).self_releases.used).toBe(0);
  });

  test("allows no more than three in 30 days for node-locked machines, says when the next is possible, and changes nothing", async () => {
    for (const seatMinutes of [null, 1_441]) {
      const license = await issueWith({ maxMachines: 5, seatMinutes });
      const ids = await activate(license, 4);
      for (const machine_id of ids.slice(0, 3))
        expect((await license.post("release", { machine_id })).status).toBe(200);
      const before = await list(license);
      const refused = await license.post("release", { machine_id: ids[3] });
      expectRefusal(refused, 409, "RELEASE_LIMIT_REACHED");
      expect(refused.body.error).toMatch(
        /^Cannot release machine: the license allows 3 releases by id in 30 days, and the next is possible at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
      );
      const seconds = Number(refused.headers.get("retry-after"));
      expect(seconds).toBeWithin(30 * DAY_SECONDS - 60, 30 * DAY_SECONDS + 1);
      const next = Date.parse(refused.body.error.slice(-20));
      expect((next - Date.now()) / 1_000).toBeWithin(30 * DAY_SECONDS - 60, 30 * DAY_SECONDS + 2);
      expect(await list(license)).toEqual(before);
      expect(await listReleases(service.database, license)).toHaveLength(3);
    }
  });

  test("allows the next one as soon as an earlier one is older than 30 days", async () => {
    const license = await issueWith({ maxMachines: 5 });
    const ids = await activate(license, 5);
    const age = (id: string | undefined, days: number) =>
      service.database.query(
        (sql) => sql`
          update self_releases set released_at = released_at - ${days}::integer * interval '24 hours'
           where machine_id = ${uuidOf(id)}::uuid`,
      );
    for (const machine_id of ids.slice(0, 3)) await license.post("release", { machine_id });
    await age(ids[1], 29);
    const refused = await license.post("release", { machine_id: ids[3] });
    expectRefusal(refused, 409, "RELEASE_LIMIT_REACHED");
    expect(Number(refused.headers.get("retry-after"))).toBeWithin(DAY_SECONDS - 60, DAY_SECONDS + 1);
    await age(ids[1], 1);
    expect((await list(license)).self_releases).toEqual({ limit: 3, used: 2, days: 30 });
    expect((await license.post("release", { machine_id: ids[3] })).status).toBe(200);
    expectRefusal(await license.post("release", { machine_id: ids[4] }), 409, "RELEASE_LIMIT_REACHED");
  });

  test("allows ten times the places in a day for seats", async () => {
    const license = await issueWith({ maxMachines: 1, seatMinutes: 30 });
    for (let times = 0; times < 10; times++) {
      const [machine_id] = await activate(license, 1);
      expect((await license.post("release", { machine_id })).status).toBe(200);
    }
    const [machine_id] = await activate(license, 1);
    const refused = await license.post("release", { machine_id });
    expectRefusal(refused, 409, "RELEASE_LIMIT_REACHED");
    expect(refused.body.error).toContain("the license allows 10 releases by id in 1 day, and the next is");
    expect(Number(refused.headers.get("retry-after"))).toBeWithin(DAY_SECONDS - 60, DAY_SECONDS + 1);
  });

  test("allows as many in 30 days as the license itself says, and none if it says so", async () => {
    const one = await issueWith({ maxMachines: 2, seatMinutes: 5 }, { self_releases: 1 });
    const ids = await activate(one, 2);
    expect((await list(one)).self_releases).toEqual({ limit: 1, used: 0, days: 30 });
    expect((await one.post("release", { machine_id: ids[0] })).status).toBe(200);
    const refused = await one.post("release", { machine_id: ids[1] });
    expectRefusal(refused, 409, "RELEASE_LIMIT_REACHED");
    expect(refused.body.error).toContain("the license allows 1 release by id in 30 days");

    const none = await issueWith({ maxMachines: 1 }, { self_releases: 0 });
    const [machine_id] = await activate(none, 1);
    const forbidden = await none.post("release", { machine_id });
    expectRefusal(forbidden, 409, "RELEASE_LIMIT_REACHED");
    expect(forbidden.body.error).toBe(
      "Cannot release machine: the license allows no release by id; the machine can release itself",
    );
    expect(forbidden.headers.has("retry-after")).toBe(false);
    expect((await none.post("release", { fingerprint: "machine-1" })).status).toBe(200);
  });

  test("allows exactly so many when requests for all machines come at once, at two processes", async () => {
    const license = await issueWith({ maxMachines: 20 }, { self_releases: 7 });
    const ids = await activate(license, 20);
    const answers = await Promise.all(
      ids.map((machine_id, index) =>
        license.post("release", { machine_id }, index % 2 === 0 ? service : other),
      ),
    );
    const count = (wanted: number) => answers.filter(({ status }) => status === wanted).length;
    expect([count(200), count(409)]).toEqual([7, 13]);
    expect(await list(license)).toMatchObject({
      places: { limit: 20, used: 13 },
      self_releases: { limit: 7, used: 7, days: 30 },
    });
    expect(await listReleases(service.database, license)).toHaveLength(7);
  });

  test("counts no release of a machine by its own fingerprint, and answers that as ever", async () => {
    const license = await issueWith({ maxMachines: 1 }, { self_releases: 1 });
    for (let times = 0; times < 3; times++) {
      const [machine_id] = await activate(license, 1);
      const { body } = await license.post("release", { fingerprint: "machine-1" });
      expect(JSON.stringify(body)).toBe(JSON.stringify({ released: true, machine_id }));
    }
    expect((await list(license)).self_releases.used).toBe(0);
    expect(await listReleases(service.database, license)).toEqual([]);
  });

  test("gives the place to a machine that waits for it at once", async () => {
    const license = await issueWith({ maxMachines: 1 });
    const [machine_id] = await activate(license, 1);
    expect((await license.post("activate", { fingerprint: "the waiter" })).status).toBe(409);
    expect((await license.post("release", { machine_id })).status).toBe(200);
    expect((await license.post("activate", { fingerprint: "the waiter" })).status).toBe(200);
  });

  test("answers with nulls if the license does not count machines", async () => {
    const license = await issueWith({});
    const { status, body } = await license.post("release", {
      machine_id: "mch_019a0000000070008000000000000000",
    });
    expect({ status, body }).toEqual({
      status: 200,
      body: { released: true, machine_id: null, state: null, taken_until: null },
    });
  });

  test("needs exactly one of both names of a machine", async () => {
    const license = await issueWith({ maxMachines: 1 });
    const [machine_id] = await activate(license, 1);
    for (const [fields, error] of [
      [{}, "fingerprint is required"],
      [{ machine_id, fingerprint: "machine-1" }, "Give fingerprint or machine_id, and not both"],
      [{ machine_id: "machine-1" }, "machine_id must be mch_ and 32 hexadecimal digits"],
      [{ machine_id: null }, "machine_id must be mch_ and 32 hexadecimal digits"],
    ] as const) {
      const refused = await license.post("release", fields);
      expectRefusal(refused, 400, "INVALID_REQUEST");
      expect(refused.body.error).toBe(error);
    }
    expect((await list(license)).machines).toMatchObject([{ state: "active" }]);
  });
});
