/** Machines by the API for operators: the list, one machine, and its release. */
import { describe, expect, test } from "bun:test";
import { toId } from "../../src/base/ids.ts";
import { licenseWith, placeMachine, setEnd } from "../support/machines.ts";
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
