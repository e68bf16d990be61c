/** POST /v1/machines/activate, /v1/machines/heartbeat and /v1/machines/release. */
import { describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import { listMachines, releaseByOperator } from "../../src/licensing/machines/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { FINGERPRINT, issuePlaces, type Places, setPlaces } from "../support/machines.ts";
import { type JsonResponse, limitsOf, startTestService, type TestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useForAll, useTestService } from "../support/use.ts";

const service = useTestService();
/** A second service on the same database, like another process of one installation. */
const other = useForAll(() => startTestService({ on: service.testDatabase }));
const limited = useTestService({
  config: {
    limits: { ...limitsOf(0), machine_activate: 2, machine_heartbeat: 3, machine_release: 1 },
  },
});

/** The window of a key has more heartbeats than that of a machine. */
const roomy = useTestService({ config: { limits: { ...limitsOf(0), machine_heartbeat: 20 } } });

const issueWith = (places: Places, at: TestService = service) => issuePlaces(at, places);

/** Runs `work` while every statement that changes a machine fails, as when the disk of the database is full. */
async function whileMachinesFail({ database }: Pick<TestService, "database">, work: () => Promise<void>) {
  await database.query((sql) =>
    sql.unsafe(`do $do$ begin
      create function fail_machines() returns trigger language plpgsql as
        'begin raise exception using errcode = ''53100''; end';
      create trigger fail_machines before insert or update on machines execute function fail_machines();
    end $do$`),
  );
  try {
    await work();
  } finally {
    await database.query((sql) => sql`drop function fail_machines cascade`);
  }
}

for (const action of ["activate", "heartbeat", "release"]) {
  test(`POST /v1/machines/${action} says what is wrong with the fingerprint, also if there is none`, async () => {
    const { post } = await issueWith({ maxMachines: 1, seatMinutes: null });
    for (const [fields, error] of [
      [{}, "fingerprint is required"],
      [{ fingerprint: null }, "fingerprint must be 8 to 200 printable ASCII characters"],
      [{ fingerprint: 7 }, "fingerprint must be 8 to 200 printable ASCII characters"],
      [{ fingerprint: "short" }, "fingerprint must be 8 to 200 printable ASCII characters"],
    ] as const) {
      const refused = await post(action, fields);
      expectRefusal(refused, 400, "INVALID_REQUEST");
      expect(refused.body.error).toBe(error);
    }
  });
}

describe("POST /v1/machines/activate", () => {
  test("answers with the machine, its end and the places", async () => {
    const { post } = await issueWith({ maxMachines: 3, seatMinutes: 30 });
    const { status, body } = await post("activate", {
      fingerprint: FINGERPRINT,
      name: "Ada",
      platform: "linux",
    });
    expect(status).toBe(200);
    expect(Object.keys(body)).toEqual(["machine_id", "expires_at", "machines"]);
    expect(body.machine_id).toMatch(/^mch_[0-9a-f]{32}$/);
    const minutes = (Date.parse(body.expires_at) - Date.now()) / 60_000;
    expect(minutes).toBeWithin(28, 31);
    expect(body.machines).toEqual({ limit: 3, used: 1 });
    expect((await post("activate")).body.machine_id).toBe(body.machine_id);
  });

  test("answers null for the end of a node-locked machine, and null for a license without a limit", async () => {
    const { post } = await issueWith({ maxMachines: 1 });
    expect((await post("activate")).body).toMatchObject({
      machine_id: expect.any(String),
      expires_at: null,
    });
    const uncounted = await issueWith({});
    const nothing = { machine_id: null, expires_at: null };
    expect((await uncounted.post("activate")).body).toEqual({
      ...nothing,
      machines: { limit: null, used: 0 },
    });
    expect((await uncounted.post("heartbeat")).body).toEqual(nothing);
    expect((await uncounted.post("release")).body).toEqual({ released: true, machine_id: null });
  });

  test("refuses a machine without a place, with the use, and says when to ask again", async () => {
    for (const places of [{ maxMachines: 1 }, { maxMachines: 1, seatMinutes: 5 }]) {
      const { post } = await issueWith(places);
      await post("activate");
      for (let times = 0; times < 2; times++) {
        const refused = await post("activate", { fingerprint: "another machine" });
        expectRefusal(refused, 409, "MACHINE_LIMIT_REACHED");
        expect(refused.body.machines).toEqual({ limit: 1, used: 1 });
        expect(Number(refused.headers.get("retry-after"))).toBeWithin(1, 11);
      }
    }
  });

  test("refuses a machine that waits from memory, and asks the database for every other one", async () => {
    const { post, licenseUuid } = await issueWith({ maxMachines: 1 });
    const waiter = { fingerprint: "the waiter" };
    // Otherwise the pulse could find the new places only after the refusal.
    await service.advance(0);
    await post("activate");
    expect((await post("activate", waiter)).status).toBe(409);
    expect((await post("activate")).status).toBe(200);
    // No statement of the service frees a place in this way, so no process learns of it.
    await service.database.query(
      (sql) => sql`
        update machines set active_until = '-infinity', ended_at = clock_timestamp()
         where license_id = ${licenseUuid}::uuid`,
    );
    expect((await post("activate", waiter)).status).toBe(409);
    expect((await post("activate", { fingerprint: "another machine" })).status).toBe(200);
  });

  test("gives a waiting machine a place at once after a release, and within a second after a change of the places", async () => {
    for (const seats of [{}, { seatMinutes: 5 }]) {
      const { post, licenseUuid } = await issueWith({ maxMachines: 1, ...seats });
      const [one, two] = [{ fingerprint: "machine one" }, { fingerprint: "machine two" }];
      await post("activate", one);
      expect((await post("activate", two)).status).toBe(409);
      await post("release", one);
      expect((await post("activate", two)).status).toBe(200);
      expect((await post("activate", one)).status).toBe(409);
      await setPlaces(service.database, licenseUuid, { maxMachines: 2 });
      await until(async () => (await post("activate", one)).status === 200);
    }
  });

  test("gives a waiting machine a place that was released in another process, or by an operator, within a second", async () => {
    const { post, apiKey, licenseUuid } = await issueWith({ maxMachines: 1 });
    const [one, two] = [{ fingerprint: "machine one" }, { fingerprint: "machine two" }];
    await post("activate", one);
    expect((await post("activate", two)).status).toBe(409);
    expect((await other.post("/v1/machines/release", { api_key: apiKey, ...one })).status).toBe(200);
    await until(async () => (await post("activate", two)).status === 200);
    expect((await post("activate", one)).status).toBe(409);
    const [machine] = await listMachines(service.database, { filter: { licenseUuid, state: "active" } });
    const actor = { kind: "command", name: "root" } as const;
    await releaseByOperator(service.database, parseId("mch", machine?.id ?? "") ?? "", {
      actor,
      now: new Date(),
    });
    await until(async () => (await post("activate", one)).status === 200);
  });

  test("counts activations and releases for the key", async () => {
    const { post } = await issueWith({ maxMachines: 1 }, limited);
    for (const status of [200, 200, 429]) expect((await post("activate")).status).toBe(status);
    for (const status of [200, 429]) expect((await post("release")).status).toBe(status);
  });

  test("counts no activation and no release that the database could not write", async () => {
    const { post } = await issueWith({ maxMachines: 1 }, limited);
    await whileMachinesFail(limited, async () => {
      for (let times = 0; times < 4; times++)
        expectRefusal(await post("activate"), 503, "SERVICE_UNAVAILABLE");
    });
    expect((await post("activate")).status).toBe(200);
    await whileMachinesFail(limited, async () => {
      for (let times = 0; times < 4; times++)
        expectRefusal(await post("release"), 503, "SERVICE_UNAVAILABLE");
    });
    for (const status of [200, 429]) expect((await post("release")).status).toBe(status);
  });
});

describe("The limits of a key with machines", () => {
  const limits = {
    ...limitsOf(0),
    license: 4,
    machine_activate: 4,
    machine_list: 4,
    machine_release: 4,
    validate: 4,
  };
  const small = useTestService({ config: { limits } });
  const shared = useForAll(async () => {
    const config = { limits, rateLimits: "shared" } as const;
    const one = await startTestService({ config });
    const two = await startTestService({ config, on: one.testDatabase });
    const close = async () => {
      await two.close();
      await one.close();
    };
    return { one, two, close };
  });
  const limitOf = ({ headers }: { readonly headers: Headers }) => headers.get("x-ratelimit-limit");

  test("let all machines of a license start within a minute with one key, also if processes share the windows", async () => {
    const machines = Array.from({ length: 1_000 }, (_, index) => ({ fingerprint: `machine-${index}` }));
    for (const [at, other] of [
      [small, small],
      [shared.one, shared.two],
    ] as const) {
      const { post } = await issueWith({ maxMachines: 1_000 }, at);
      const answers: JsonResponse[] = [];
      for (let from = 0; from < machines.length; from += 25) {
        const some = machines.slice(from, from + 25);
        const asked = some.map((machine, index) => post("activate", machine, index % 2 === 0 ? at : other));
        answers.push(...(await Promise.all(asked)));
      }
      expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
      expect(new Set(answers.map(limitOf))).toEqual(new Set(["1000"]));
      const left = answers.map(({ headers }) => Number(headers.get("x-ratelimit-remaining")));
      expect(Math.min(...left)).toBe(0);
      const refused = await post("activate", machines[0], other);
      expectRefusal(refused, 429, "RATE_LIMIT_EXCEEDED");
      expect(limitOf(refused)).toBe("1000");
    }
  });

  test("are those of the settings with fewer places, and at other endpoints, and stay off where the setting is 0", async () => {
    for (const at of [small, shared.one]) {
      const few = await issueWith({ maxMachines: 3 }, at);
      expect(limitOf(await few.post("activate"))).toBe("4");
      const many = await issueWith({ maxMachines: 1_000 }, at);
      expect(limitOf(await many.post("activate"))).toBe("1000");
      expect(limitOf(await many.post("list"))).toBe("1000");
      expect(limitOf(await many.post("release"))).toBe("4");
      expect(limitOf(await at.post("/v1/auth/validate", { api_key: many.apiKey }))).toBe("4");
      expect(limitOf(await at.post("/v1/auth/license", { api_key: many.apiKey }))).toBe("1000");
    }
    const off = await issueWith({ maxMachines: 1_000 });
    expect(limitOf(await off.post("activate"))).toBeNull();
  });

  test("are never more than 5,000", async () => {
    const { post } = await issueWith({ maxMachines: 1_000_000 }, small);
    expect(limitOf(await post("activate"))).toBe("5000");
  });

  test("follow the number of places within a second", async () => {
    const { post, licenseUuid } = await issueWith({ maxMachines: 1 }, small);
    for (const status of [200, 200, 200, 200, 429]) expect((await post("activate")).status).toBe(status);
    await setPlaces(small.database, licenseUuid, { maxMachines: 6 });
    await until(async () => (await post("activate")).status === 200);
    expect(limitOf(await post("activate"))).toBe("6");
  });
});

describe("POST /v1/machines/heartbeat", () => {
  test("refuses a machine that holds no place, also one of another license", async () => {
    const { post } = await issueWith({ maxMachines: 1, seatMinutes: 5 });
    expectRefusal(await post("heartbeat"), 404, "MACHINE_NOT_FOUND");
    await post("activate");
    const beat = await post("heartbeat");
    expect(beat.status).toBe(200);
    expect(Object.keys(beat.body)).toEqual(["machine_id", "expires_at"]);
    const other = await issueWith({ maxMachines: 1, seatMinutes: 5 });
    expectRefusal(await other.post("heartbeat"), 404, "MACHINE_NOT_FOUND");
    expectRefusal(await other.post("release"), 404, "MACHINE_NOT_FOUND");
    expect((await post("release")).body).toEqual({ released: true, machine_id: beat.body.machine_id });
    expectRefusal(await post("heartbeat"), 404, "MACHINE_NOT_FOUND");
  });

  test("counts for each machine that holds a place, and for the key where none does", async () => {
    const { post } = await issueWith({ maxMachines: 2, seatMinutes: 5 }, limited);
    const machines = [{ fingerprint: "machine-one" }, { fingerprint: "machine-two" }];
    for (const machine of machines) await post("activate", machine);
    for (const machine of machines) {
      for (let count = 1; count <= 10; count++) {
        const { status, headers } = await post("heartbeat", machine);
        expect(status).toBe(200);
        expect(headers.get("x-ratelimit-remaining")).toBe(String(10 - count));
      }
      const refused = await post("heartbeat", machine);
      expectRefusal(refused, 429, "RATE_LIMIT_EXCEEDED");
      expect(Number(refused.headers.get("retry-after"))).toBeWithin(1, 62);
    }
    for (const status of [404, 404, 404, 429])
      expect((await post("heartbeat", { fingerprint: "machine-three" })).status).toBe(status);
  });

  test("counts no heartbeat that the database could not write, neither for the machine nor for the key", async () => {
    const { post } = await issueWith({ maxMachines: 2, seatMinutes: 5 }, limited);
    const [known, unknown] = [{ fingerprint: "machine-one" }, { fingerprint: "machine-two" }];
    for (const machine of [known, unknown]) await post("activate", machine);
    const remaining = async (machine: object) => {
      const { status, headers } = await post("heartbeat", machine);
      return [status, Number(headers.get("x-ratelimit-remaining"))];
    };
    expect(await remaining(known)).toEqual([200, 9]);
    await whileMachinesFail(limited, async () => {
      for (let times = 0; times < 12; times++) {
        expect(await remaining(known)).toEqual([503, 9]);
        expect(await remaining(unknown)).toEqual([503, 3]);
      }
    });
    expect(await remaining(known)).toEqual([200, 8]);
    expect(await remaining(unknown)).toEqual([200, 9]);
    for (const left of [2, 1, 0])
      expect(await remaining({ fingerprint: "machine-three" })).toEqual([404, left]);
  });

  test("of a machine that lost its place get 404 as long as the key has room, also more than a machine may send", async () => {
    const { post, licenseUuid } = await issueWith({ maxMachines: 2, seatMinutes: 5 }, roomy);
    const [released, ended] = [{ fingerprint: "machine-one" }, { fingerprint: "machine-two" }];
    for (const machine of [released, ended]) {
      await post("activate", machine);
      expect((await post("heartbeat", machine)).headers.get("x-ratelimit-remaining")).toBe("9");
    }
    await post("release", released);
    await roomy.database.query(
      (sql) => sql`
        update machines set active_until = clock_timestamp() - interval '1 second'
         where license_id = ${licenseUuid}::uuid and ended_at is null`,
    );
    for (let left = 19; left >= 0; left--) {
      const refused = await post("heartbeat", left % 2 === 1 ? released : ended);
      expectRefusal(refused, 404, "MACHINE_NOT_FOUND");
      expect(refused.headers.get("x-ratelimit-remaining")).toBe(String(left));
    }
    expectRefusal(await post("heartbeat", released), 429, "RATE_LIMIT_EXCEEDED");
  });

  test("answers heartbeats that arrive together, each with its own machine", async () => {
    const { post } = await issueWith({ maxMachines: 20, seatMinutes: 5 });
    const machines = Array.from({ length: 20 }, (_, index) => ({ fingerprint: `machine-${index}` }));
    const ids = (await Promise.all(machines.map((machine) => post("activate", machine)))).map(
      ({ body }) => body.machine_id,
    );
    const beats = await Promise.all(machines.map((machine) => post("heartbeat", machine)));
    expect(beats.map(({ body }) => body.machine_id)).toEqual(ids);
    expect(new Set(ids).size).toBe(20);
  });
});
