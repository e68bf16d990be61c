/** Machines by the API for operators: the list, one machine, its release and that of many, and the place of a lost file. */
import { describe, expect, test } from "bun:test";
import { toId } from "../../src/base/ids.ts";
import { licenseWith, placeMachine, setEnd, setSeen } from "../support/machines.ts";
import { useAdmin } from "../support/use.ts";
import { readAll } from "./list_kit.ts";

const admin = useAdmin();

/** A license with three node-locked machines. */
async function withThree() {
  const license = await licenseWith(admin.database, { maxMachines: 3 });
  const ids: string[] = [];
  for (const fingerprint of ["one", "two", "three"])
    ids.push(toId("mch", await placeMachine(admin.database, license, fingerprint)));
  return { ...license, ids, id: toId("lic", license.licenseUuid), keyId: toId("key", license.keyUuid) };
}

const uuidOf = (id: string) => id.slice(4).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");

describe("GET /admin/v1/machines", () => {
  test("lists the machines of a license, of a key and of an account, page by page", async () => {
    const { ids, id, keyId } = await withThree();
    const [first] = await readAll(admin, `/machines?license=${id}`);
    expect(first).toEqual({
      id: ids[0],
      user_id: expect.stringMatching(/^usr_/),
      license_id: id,
      email: expect.stringContaining("@"),
      name: "laptop one",
      platform: "linux",
      state: "active",
      activated_at: expect.stringMatching(/Z$/),
      last_seen_at: expect.stringMatching(/Z$/),
      active_until: null,
      taken_until: null,
      signed_until: null,
    });
    for (const condition of [
      `license=${id}`,
      `key=${keyId}`,
      `account=${first?.user_id}`,
      `account=${first?.email}`,
    ]) {
      const rows = await readAll(admin, `/machines?limit=2&${condition}`);
      expect(rows.map((row) => row.id)).toEqual(ids);
    }
    const [one = ""] = ids;
    await admin.call("POST", `/machines/${one}/release`, { body: {} });
    expect(await readAll(admin, `/machines?license=${id}&state=released`)).toMatchObject([{ id: one }]);
  });

  test("lists the machines that were not seen for so long", async () => {
    const { ids, id } = await withThree();
    await setSeen(admin.database, ids.slice(0, 2).map(uuidOf), 31);
    const unseen = async (span: string) =>
      (await readAll(admin, `/machines?license=${id}&unseen=${span}`)).map((row) => row.id);
    expect(await unseen("30d")).toEqual(ids.slice(0, 2));
    expect(await unseen("743h")).toEqual(ids.slice(0, 2));
    expect(await unseen("32d")).toEqual([]);
    expect(await unseen("0h")).toEqual(ids);
  });

  test("refuses an unknown account, another state and a wrong id", async () => {
    expect(await admin.call("GET", "/machines?account=nobody@example.org")).toMatchObject({ status: 404 });
    for (const wrong of ["state=lost", "license=lic_7", "key=svc_live_x"])
      expect(await admin.call("GET", `/machines?${wrong}`)).toMatchObject({
        status: 400,
        body: { code: "INVALID_REQUEST" },
      });
  });
});

describe("POST /admin/v1/machines/ID/release", () => {
  test("frees the place, and refuses a machine that holds none", async () => {
    const { ids, ...license } = await withThree();
    const [one = ""] = ids;
    const released = { id: one, state: "released", taken_until: null, changed: true };
    expect((await admin.call("POST", `/machines/${one}/release`, { body: { reason: "lost" } })).body).toEqual(
      released,
    );
    await placeMachine(admin.database, license, "four");
    expect((await admin.call("GET", `/machines/${one}`)).body).toMatchObject({ id: one, state: "released" });
    expect(await admin.call("POST", `/machines/${one}/release`, { body: {} })).toMatchObject({
      status: 409,
      body: { code: "CONFLICT", error: "Cannot release machine: it holds no place" },
    });
  });

  test("says until when the place stays taken, also when it is repeated", async () => {
    const { ids } = await withThree();
    const [one = ""] = ids;
    await setEnd(admin.database, uuidOf(one), { signed_until: 60 });
    const release = () => admin.call("POST", `/machines/${one}/release`, { body: {} });
    const { body } = await release();
    expect(body).toMatchObject({
      state: "offline",
      taken_until: expect.stringMatching(/Z$/),
      changed: true,
    });
    expect((await release()).body).toEqual({ ...body, changed: false });
  });
});

describe("POST /admin/v1/machines/release", () => {
  const release = (body: object, token?: string) =>
    admin.call("POST", "/machines/release", { body, ...(token !== undefined && { token }) });

  test("releases each machine, and refuses unknown and released ones alone", async () => {
    const { ids, licenseUuid } = await withThree();
    const [one = "", two = "", three = ""] = ids;
    await admin.call("POST", `/machines/${one}/release`, { body: {} });
    await setEnd(admin.database, uuidOf(two), { signed_until: 60 });
    const unknown = `mch_${"0".repeat(32)}`;

    const { status, body } = await release({
      ids: [unknown, one, two, three],
      reason: "not seen for a month",
    });

    const refused = { state: null, taken_until: null, changed: false };
    const end = expect.stringMatching(/Z$/);
    expect({ status, ...body }).toEqual({
      ...{ status: 200, released: 2, free: 1, taken: 1, taken_until: end, unchanged: 0, refused: 2 },
      results: [
        {
          id: unknown,
          ...refused,
          code: "NOT_FOUND",
          error: `Cannot release machine: there is no machine ${unknown}`,
        },
        { id: one, ...refused, code: "CONFLICT", error: "Cannot release machine: it holds no place" },
        { id: two, state: "offline", taken_until: end, changed: true, code: null, error: null },
        { id: three, state: "released", taken_until: null, changed: true, code: null, error: null },
      ],
    });
    const rows = await admin.database.query(
      (sql) => sql`
        select after ->> 'machine' as id, actor like 'token:%' as "isToken", reason from audit
         where action = 'machine.release' and license_id = ${licenseUuid}::uuid order by id`,
    );
    const reason = "not seen for a month";
    expect(rows).toEqual(
      expect.arrayContaining([
        { id: two, isToken: true, reason },
        { id: three, isToken: true, reason },
      ]),
    );
    expect(rows).toHaveLength(3);
    const again = await release({ ids: [two, two] });
    expect(again.body).toMatchObject({ released: 0, unchanged: 1, results: [{ id: two, changed: false }] });
  });

  test("refuses none, more than 500, and a text that is no id, and releases nothing", async () => {
    const { ids, id } = await withThree();
    const [one = ""] = ids;
    const many = Array.from({ length: 501 }, () => one);
    const rule = "ids must be a list of 1 to 500 ids of machines";
    for (const [wrong, field, error] of [
      [[], "ids", rule],
      [many, "ids", rule],
      [one, "ids", rule],
      [undefined, "ids", "ids is required"],
      [[one, "mch_7"], "ids.1", "ids.1 must be mch_ and 32 hexadecimal digits"],
      [[one, 7], "ids.1", "ids.1 must be mch_ and 32 hexadecimal digits"],
    ] as const) {
      const { status, body } = await release({ ids: wrong });
      expect({ wrong, status, field: body.details?.[0].field }).toEqual({ wrong, status: 400, field });
      expect(body.error).toContain(error);
    }
    expect(await readAll(admin, `/machines?license=${id}&state=active`)).toHaveLength(3);
    expect((await release({ ids: many.slice(1) })).body).toMatchObject({ released: 1 });
  });
});

describe("POST /admin/v1/machines/ID/free", () => {
  test("frees the place that a signed license holds, and says until when the file works", async () => {
    const { ids, ...license } = await withThree();
    const [one = ""] = ids;
    await setEnd(admin.database, uuidOf(one), { signed_until: 60 });
    const { signed_until: end } = (await admin.call("GET", `/machines/${one}`)).body;
    const free = (body: object) => admin.call("POST", `/machines/${one}/free`, { body });

    for (const body of [{}, { reason: "" }]) {
      const refused = await free(body);
      expect({ body, status: refused.status, field: refused.body.details?.[0].field }).toEqual({
        body,
        ...{ status: 400, field: "reason" },
      });
    }
    expect((await admin.call("GET", `/machines/${one}`)).body.state).toBe("active");
    expect((await free({ reason: "the file is lost" })).body).toEqual({
      id: one,
      state: "released",
      file_works_until: end,
    });

    await placeMachine(admin.database, license, "four");
    expect((await admin.call("GET", `/machines/${one}`)).body).toMatchObject({
      ...{ state: "released", signed_until: null },
    });
    expect(await free({ reason: "again" })).toMatchObject({
      status: 409,
      body: { code: "CONFLICT", error: "Cannot free the place of the machine: it holds none" },
    });
  });

  test("needs a scope of its own", async () => {
    const { ids } = await withThree();
    const [one = ""] = ids;
    await setEnd(admin.database, uuidOf(one), { signed_until: 60 });
    const token = await admin.token({ scopes: ["machines:read", "machines:release"] });
    const { status, body } = await admin.call("POST", `/machines/${one}/free`, {
      token,
      body: { reason: "x" },
    });
    expect({ status, ...body }).toMatchObject({ status: 403, code: "SCOPE_REQUIRED" });
    expect((await admin.call("GET", `/machines/${one}`)).body.state).toBe("active");
  });
});
