/** The page of a license: what the customer has, what uses it, and what can be changed there. */
import { beforeAll, describe, expect, test } from "bun:test";
import { parseId, toId } from "../../src/base/ids.ts";
import { revokeKey, rotateKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { ACTOR, BRAND, orThrow } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { placeMachine } from "../support/machines.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { use } from "./list_kit.ts";
import { attributesOf, linkTo, mainOf, textsOf } from "./texts_of.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
let cookie: string;
beforeAll(async () => {
  cookie = (await client.logIn("editor", "emil")).cookie;
});

const open = async (path: string) => await client.send(path, { cookie });
const by = () => ({ actor: ACTOR, now: admin.clock.now() });

describe("The page of a license", () => {
  test("shows what was bought, every key, machine and signed file, and is where its keys and account lead", async () => {
    const key = await admin.issue({
      email: "lab@license.example",
      tier: "commercial",
      maxMachines: 5,
      externalId: "ORDER-77",
      updatesUntil: new Date("2027-06-30T23:59:59Z"),
    });
    const changes = createLicenseChanges(admin.database);
    const rotation = { uuid: uuidOf(key), mode: "live", overlapMs: 86_400_000 } as const;
    const successor = orThrow(await rotateKey(changes, rotation, { ...by(), brand: BRAND }));
    await placeMachine(admin.database, { licenseUuid: key.licenseUuid, keyUuid: uuidOf(key) }, "lab");
    const body = { days: 9, fingerprint: "workstation-9" };
    expect((await admin.call("POST", `/keys/${successor.id}/license`, { body })).status).toBe(201);
    const path = `/licenses/${toId("lic", key.licenseUuid)}`;
    const change = { tier: "enterprise" };
    expect((await admin.call("PATCH", path, { body: change })).status).toBe(200);
    await revokeKey(changes, { uuid: uuidOf(key) }, by());
    const { text } = await open(path);
    const history = textsOf(text, "section[aria-labelledby=history] tbody tr").join(" ");
    // Also what was noted with a key that is revoked.
    for (const action of ["key.issue", "machine.activate", "license.tier", "license.export", "key.revoke"])
      expect(history).toContain(action);
    for (const part of [
      ...["of lab@license.example, external id ORDER-77", "enterprise", "custom_models"],
      ...["unlimited", "5 node-locked machines", "2027-06-30", "laptop lab", "a file that was exported"],
    ])
      expect(mainOf(text)).toContain(part);
    expect(attributesOf(text, "main a", "href")).toEqual(
      expect.arrayContaining([key.id, successor.id].map((id) => `/console/keys/${id}`)),
    );
    for (const from of [`/keys/${key.id}`, `/accounts/${key.userId}`])
      expect(attributesOf((await open(from)).text, "main a", "href")).toContain(`/console${path}`);
  });

  test("offers the changes of a license, and makes them for all its keys", async () => {
    const key = await admin.issue({ email: "change@license.example" });
    const path = `/licenses/${toId("lic", key.licenseUuid)}`;
    expect(textsOf((await open(path)).text, ".action > summary, .opens")).toEqual([
      ...["Renew…", "Change tier…", "Change limit…", "Change machines…", "Change offline days…"],
      ...["Change updates…"],
      ...["Change features…", "Change values…"],
      ...["Change external id…", "Move to another account…"],
    ]);
    const { text } = await client.submit(`${path}/tier`, { cookie, form: { tier: "commercial" } });
    expect(mainOf(text)).toContain("500,000 a month, of which 0 are used.");
    expect(textsOf(text, "h1")).toEqual(["change@license.example"]);
    const end = { updates_until: "2027-06-30" };
    const refused = await client.submit(`${path}/updates`, { cookie, form: end });
    expect(textsOf(refused.text, ".error")).toEqual([
      expect.stringContaining("the end of updates would become earlier, from never to 2027-06-30T23:59:59Z"),
    ]);
    const meant = { ...end, shorten: "yes" };
    expect(mainOf((await client.submit(`${path}/updates`, { cookie, form: meant })).text)).toContain(
      "updates until: none → 2027-06-30 23:59. The change applies to all keys of the license: 1 that is not revoked.",
    );
  });

  test("has the form of a change that few people need only behind its link, and then open", async () => {
    const key = await admin.issue({ email: "rare@license.example" });
    const { text } = await open(`/licenses/${toId("lic", key.licenseUuid)}`);
    expect(textsOf(text, "#move-form")).toEqual([]);
    const opened = await open(linkTo(text, "Move to another account…"));
    expect(textsOf(opened.text, "details[open] > #move-form")).toHaveLength(1);
    expect(textsOf(opened.text, "#updates-form")).toEqual([]);
  });

  test("says before and after a change to how many keys it applies, without the revoked ones", async () => {
    const key = await admin.issue();
    const changes = createLicenseChanges(admin.database);
    const rotation = { uuid: uuidOf(key), mode: "live", overlapMs: 86_400_000 } as const;
    const successor = orThrow(await rotateKey(changes, rotation, { ...by(), brand: BRAND }));
    const last = { ...rotation, uuid: parseId("key", successor.id) ?? "" };
    orThrow(await rotateKey(changes, last, { ...by(), brand: BRAND }));
    await revokeKey(changes, { uuid: uuidOf(key) }, by());
    const said = "The change applies to all keys of the license: 2 that are not revoked.";
    const path = `/licenses/${toId("lic", key.licenseUuid)}`;
    for (const page of [path, `/keys/${successor.id}`])
      for (const action of ["tier", "limit", "machines", "offline", "updates", "features", "values"]) {
        const { text } = await open(`${page}?open=${action}`);
        expect(textsOf(text, `#${action}-form`)[0]).toContain(said);
      }
    const { text } = await client.submit(`${path}/offline`, { cookie, form: { max_offline_days: "1" } });
    expect(textsOf(text, ".notice")[0]).toContain(said);
  });

  test("names each box as what it allows", async () => {
    const key = await admin.issue({ maxMachines: 2 });
    await placeMachine(admin.database, { licenseUuid: key.licenseUuid, keyUuid: uuidOf(key) }, "one");
    for (const [action, box] of [
      ["limit", "Change it even if the limit is used up then"],
      ["machines", "Allow a limit below the places that are taken, or none"],
      ["renew", "Allow an earlier end than now"],
      ["features", "Allow an earlier end than now"],
      ["updates", "Allow updates to end earlier than now"],
      ["move", "Allow the loss of custom models"],
    ] as const) {
      const { text } = await open(`/keys/${key.id}?open=${action}`);
      expect(textsOf(text, `#${action}-form label`)).toContain(box);
    }
  });

  test("says which of its keys the service refuses and why, also after a limit below the use", async () => {
    const key = await admin.issue({ email: "refused@license.example", tier: "research" });
    await use(admin, key, 20);
    const path = `/licenses/${toId("lic", key.licenseUuid)}`;
    expect(textsOf((await open(path)).text, ".notice.warning")).toEqual([]);
    const form = { monthly_limit: "10", below_use: "yes" };
    const { text } = await client.submit(`${path}/limit`, { cookie, form });
    expect(textsOf(text, ".notice")).toEqual([
      expect.stringContaining("10 a month, of which 20 are used."),
      expect.stringMatching(
        /The service refuses requests with 1 key of this license\..*The quota of the month is used up; it resets on/s,
      ),
    ]);
  });

  test("changes the limit or the tier to less than is used only with the box that says so", async () => {
    const key = await admin.issue({ tier: "research" });
    await use(admin, key, 20_422);
    const path = `/licenses/${toId("lic", key.licenseUuid)}`;
    const tierOf = async () =>
      [(await admin.call("GET", path)).body].map(({ tier, monthly_limit }) => [tier, monthly_limit]);
    const before = await tierOf();
    for (const [action, form] of [
      ["limit", { monthly_limit: "20422" }],
      ["tier", { tier: "free" }],
    ] as const) {
      const refused = await client.submit(`${path}/${action}`, { cookie, form });
      expect(refused.status).toBe(400);
      expect(textsOf(refused.text, `#${action} .error`)).toEqual([
        expect.stringMatching(
          /^Used this month: 20,422\. So the service would refuse the keys of the license until \d{4}-\d\d-01\. Check the box if that is meant$/,
        ),
      ]);
      expect(await tierOf()).toEqual(before);
    }
    const enough = await client.submit(`${path}/limit`, { cookie, form: { monthly_limit: "20423" } });
    expect(textsOf(enough.text, ".notice")[0]).toContain("20,423 a month, of which 20,422 are used.");
    const meant = { monthly_limit: "20422", below_use: "yes" };
    await client.submit(`${path}/limit`, { cookie, form: meant });
    // It is used up before as well.
    const lower = await client.submit(`${path}/limit`, { cookie, form: { monthly_limit: "7" } });
    expect(textsOf(lower.text, ".notice")[0]).toContain("7 a month, of which 20,422 are used.");
  });

  test("changes the machine limit to less than the places that are taken only with the box that says so", async () => {
    const key = await admin.issue({ maxMachines: 5 });
    const on = { licenseUuid: key.licenseUuid, keyUuid: uuidOf(key) };
    for (const name of ["one", "two", "three"]) await placeMachine(admin.database, on, name);
    const path = `/licenses/${toId("lic", key.licenseUuid)}`;
    const limitOf = async () => (await admin.call("GET", path)).body.max_machines;
    const holding = async () =>
      (await admin.call("GET", `/machines?license=${toId("lic", key.licenseUuid)}&state=active`)).body.data;
    for (const page of [path, `/keys/${key.id}`]) {
      expect(textsOf((await open(page)).text, "#machines-form")[0]).toContain(
        "Now: 5 node-locked machines. Places taken: 3 of 5.",
      );
      const refused = await client.submit(`${page}/machines`, { cookie, form: { max_machines: "2" } });
      expect(refused.status).toBe(400);
      expect(textsOf(refused.text, "#machines .error")).toEqual([
        "3 places are taken: the machines would keep them, but no other machine would get one until fewer are taken than the limit. Check the box if that is meant",
      ]);
      expect(await limitOf()).toBe(5);
    }
    const enough = await client.submit(`${path}/machines`, { cookie, form: { max_machines: "3" } });
    expect(textsOf(enough.text, ".notice")[0]).toContain("machine limit: 5 → 3.");
    const meant = { max_machines: "2", below_use: "yes" };
    const { text } = await client.submit(`${path}/machines`, { cookie, form: meant });
    expect(textsOf(text, ".notice")[0]).toContain("machine limit: 3 → 2.");
    expect(textsOf(text, ".notice")[0]).toContain("Places taken: 3 of 2.");
    // As the form said: no machine has lost its place, and no other gets one.
    expect(await holding()).toHaveLength(3);
    await expect(placeMachine(admin.database, on, "four")).rejects.toThrow();
    // The limit is below the use before as well.
    const same = await client.submit(`${path}/machines`, {
      cookie,
      form: { max_machines: "2", seat_minutes: "43200" },
    });
    expect(textsOf(same.text, ".notice")[0]).toContain("seat minutes: none → 43,200.");
    const none = await client.submit(`${path}/machines`, { cookie, form: { max_machines: "" } });
    expect(textsOf(none.text, "#machines .error")).toEqual([
      "3 places are taken: without a limit every machine would lose its place at once, unless a license was signed for it. Check the box if that is meant",
    ]);
    expect([none.status, await limitOf(), (await holding()).length]).toEqual([400, 2, 3]);
    const ended = await client.submit(`${path}/machines`, {
      cookie,
      form: { max_machines: "", below_use: "yes" },
    });
    expect(textsOf(ended.text, ".notice")[0]).toContain(
      "machine limit: 2 → none; seat minutes: 43,200 → none.",
    );
    expect(textsOf(ended.text, ".notice")[0]).toContain(
      "Machines are not counted now, and none holds a place.",
    );
    expect(await limitOf()).toBe(null);
    expect(await holding()).toEqual([]);
  });

  test("is titled by the customer, as are those of a key and a machine, and names the id below", async () => {
    const names = { name: "Ada <b>", organization: "Compiler Labs" };
    const key = await admin.issue({ email: "named@license.example", maxMachines: 2, ...names });
    const license = toId("lic", key.licenseUuid);
    const titled = async (path: string) => {
      const { text } = await open(path);
      return [...textsOf(text, "h1"), ...textsOf(text, "title"), ...textsOf(text, ".under")];
    };
    const hint = `svc_live_${key.apiKey.slice(9, 13)}…${key.apiKey.slice(-4)}`;
    expect(await titled(`/licenses/${license}`)).toEqual([
      "Ada <b>, Compiler Labs",
      `License …${license.slice(-6)}: Ada <b>, Compiler Labs – Claviger`,
      expect.stringContaining(`License ${license} Copy of named@license.example`),
    ]);
    expect(await titled(`/keys/${key.id}`)).toEqual([
      "Ada <b>, Compiler Labs",
      `Key ${hint}: Ada <b>, Compiler Labs – Claviger`,
      expect.stringContaining(`Key ${hint}, ${key.id} Copy of named@license.example, license ${license}`),
    ]);
    const on = { licenseUuid: key.licenseUuid, keyUuid: uuidOf(key) };
    const machine = toId("mch", await placeMachine(admin.database, on, "lab"));
    expect(await titled(`/machines/${machine}`)).toEqual([
      "laptop lab",
      "Machine: laptop lab – Claviger",
      `Machine of named@license.example, license ${license}`,
    ]);
  });

  test("changes the tier for the page of the account, and Cancel and the change lead back there alone", async () => {
    const key = await admin.issue({ email: "begun@license.example", tier: "free" });
    const other = await admin.issue({ email: "other@license.example" });
    const [account, path] = [`/accounts/${key.userId}`, `/licenses/${toId("lic", key.licenseUuid)}`];
    const link = linkTo((await open(account)).text, "Change tier");
    expect(link).toBe(`${path}?open=tier&from=${encodeURIComponent(account)}#tier-form`);
    const form = (await open(link)).text;
    expect(attributesOf(form, "#tier [name=from]", "value")).toEqual([account]);
    // The page of the account says nothing of other changes, so they end on the page of the license.
    expect(attributesOf(form, "[name=from]", "value")).toEqual([account]);
    const limited = await client.submit(`${path}/limit`, {
      cookie,
      form: { monthly_limit: "700", from: account },
    });
    expect(textsOf(limited.text, ".under")[0]).toContain(toId("lic", key.licenseUuid));
    expect(textsOf(limited.text, ".notice")[0]).toContain("700");
    expect(attributesOf(form, "#tier .actions a", "href")).toEqual([`/console${account}`]);
    const refused = await client.send(`${path}/tier`, { cookie, form: { tier: "gold", from: account } });
    expect(attributesOf(refused.text, "#tier [name=from]", "value")).toEqual([account]);
    const changed = await client.submit(`${path}/tier`, {
      cookie,
      form: { tier: "commercial", from: account },
    });
    expect(textsOf(changed.text, ".notice")[0]).toContain(
      "tier: free → commercial. The change applies to all keys of the license.",
    );
    expect(textsOf(changed.text, ".under")[0]).toContain(`Account begun@license.example, ${key.userId}`);
    for (const from of [`/accounts/${other.userId}`, "//evil.example", "https://evil.example/"]) {
      const { location } = await client.send(`${path}/tier`, { cookie, form: { tier: "free", from } });
      expect(location).toStartWith(`/console${path}?done=`);
      await client.send(`${path}/tier`, { cookie, form: { tier: "research" } });
      const { text } = await open(`${path}?open=tier&from=${encodeURIComponent(from)}`);
      expect(attributesOf(text, "[name=from]", "value")).toEqual([]);
    }
  });

  test("offers only a move and the external id if all keys are revoked, and answers an id that no license has", async () => {
    const key = await admin.issue({ email: "revoked@license.example" });
    orThrow(await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(key) }, by()));
    const { text } = await open(`/licenses/${toId("lic", key.licenseUuid)}`);
    expect(textsOf(text, "h1")).toEqual(["revoked@license.example"]);
    expect(textsOf(text, ".action > summary, .opens")).toEqual([
      "Change external id…",
      "Move to another account…",
    ]);
    const unknown = await open(`/licenses/lic_${"0".repeat(32)}`);
    expect(unknown.status).toBe(404);
    expect(mainOf(unknown.text)).toContain("there is no license");
  });
});
