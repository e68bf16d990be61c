/** The list of machines, the page of a machine, and the machines on the pages of keys and accounts. */
import { beforeAll, expect, test } from "bun:test";
import { parseId, toId } from "../../src/base/ids.ts";
import { activateMachine, createMachineNames } from "../../src/licensing/machines/mod.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { licenseWith, setEnd, type TestLicense } from "../support/machines.ts";
import { openSecrets } from "../support/secrets.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { newIdempotencyKey } from "./sample_requests.ts";
import { attributesOf, linkTo, textsOf } from "./texts_of.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
const nameMachine = createMachineNames(openSecrets());
let viewer: string;
let editor: string;
beforeAll(async () => {
  viewer = (await client.logIn("viewer")).cookie;
  editor = (await client.logIn("editor")).cookie;
});

const open = async (path: string, cookie = viewer) => (await client.send(path, { cookie })).text;

async function activate({ keyUuid, licenseUuid }: TestLicense, name: string, platform?: string) {
  const machine = nameMachine(licenseUuid, `fingerprint of ${name}`);
  const activation = { keyUuid, machine, name, platform, actor: ACTOR, now: admin.clock.now() };
  return toId("mch", orThrow(await activateMachine(admin.database, activation)).uuid ?? "");
}

test("The machines of a key are on its page, and an editor releases one, but no viewer", async () => {
  const license = await licenseWith(admin.database, { maxMachines: 2, seatMinutes: 30 });
  const id = await activate(license, "Notebook of Ada <b>", "linux x86-64");
  await activate(license, "A workstation", "Windows 11");
  const page = await open(`/keys/${toId("key", license.keyUuid)}`);
  expect(page).toContain("Places taken: 2 of 2.");
  expect(page).toContain("all places taken");
  expect(linkTo(page, "Notebook of Ada <b>")).toBe(`/machines/${id}`);

  const seen = await open(`/machines/${id}`);
  expect(textsOf(seen, "h1 > bdi")).toEqual(["Notebook of Ada <b>"]);
  expect(textsOf(seen, ".action")).toEqual([]);
  expect(textsOf(await open(`/machines/${id}`, editor), ".action > summary")).toEqual(["Release…"]);

  const form = { reason: "the notebook was sold" };
  const { text } = await client.submit(`/machines/${id}/release`, { cookie: editor, form });

  expect(textsOf(text, ".notice")[0]).toContain("The machine is released: its place is free.");
  expect(textsOf(text, ".action")).toEqual([]);
  const rows = await admin.database.query(
    (sql) => sql`select action, reason from audit where action = 'machine.release'`,
  );
  expect(rows).toEqual([{ action: "machine.release", ...form }]);
});

test("Machines are found by a part of their name, and a machine by its id in the search box", async () => {
  const license = await licenseWith(admin.database, { maxMachines: 3 });
  const id = await activate(license, "Lab-Rechner 4711");
  await activate(license, "lab-rechner 5");
  const names = async (name: string) =>
    textsOf(await open(`/machines?${new URLSearchParams({ name })}`), "tbody th");
  expect(await names("lab-RECHNER")).toEqual(["lab-rechner 5", "Lab-Rechner 4711"]);
  expect(await names("47")).toEqual(["Lab-Rechner 4711"]);
  expect(await names("%")).toEqual([]);

  const found = await open("/search?q=rechner+4711");
  expect(await names("rechner 4711")).toEqual(["Lab-Rechner 4711"]);
  expect(linkTo(found, "Search the names of machines")).toBe("/machines?name=rechner+4711");
  expect((await client.send(`/search?q=${id}`, { cookie: viewer })).location).toBe(`/console/machines/${id}`);
});

/** Rotates a key after every machine was last seen. Returns the hints of the old key and of the new one. */
async function rotated(keyId: string) {
  const { body } = await admin.call("POST", `/keys/${keyId}/rotate`, {
    headers: newIdempotencyKey(),
    body: {},
  });
  await admin.database.query(
    (sql) =>
      sql`update keys set created_at = now() + interval '1 hour' where id = ${parseId("key", body.id) ?? ""}::uuid`,
  );
  const hintOf = async (id: string) => (await admin.call("GET", `/keys/${id}`)).body.key as string;
  return { old: await hintOf(keyId), successor: await hintOf(body.id) };
}

test("A machine's page says whose it is, what they have, and which keys a thief could use", async () => {
  const license = await licenseWith(admin.database, { maxMachines: 3 });
  const id = await activate(license, "Stolen laptop");
  const keyId = toId("key", license.keyUuid);
  const page = await open(`/machines/${id}`);
  const [stolen = ""] = textsOf(page, "main p").filter((text) => text.startsWith("Stolen?"));
  expect(stolen).toContain("whoever has the machine can activate it again");
  expect(stolen).toContain("or rotate the key with 0 days of overlap. Keys of its license that work: svc_");
  expect(linkTo(page, stolen.split(" ").at(-1)?.slice(0, -1) ?? "")).toBe(`/keys/${keyId}`);
  const facts = textsOf(page, ".facts div");
  expect(textsOf(page, ".facts dd > bdi")).not.toEqual([]);
  expect(facts).toContainEqual(expect.stringMatching(/^License \w+, expires (never|\d{4}-)/));
  expect(facts).toContainEqual(expect.stringMatching(/^Customer ./));

  await setEnd(admin.database, parseId("mch", id) ?? "", { signed_until: 60 });
  expect(textsOf(await open(`/machines/${id}`), "main p").join()).toMatch(
    /0 days of overlap\. The license that was signed for the machine still works without a network until \S+Z\. Nothing ends it earlier\. Keys/,
  );

  const { old, successor } = await rotated(keyId);
  const advice = async () =>
    textsOf(await open(`/machines/${id}`), "main p").find((text) => text.startsWith("Stolen?"));
  const later = `Keys issued after it was last seen, so probably not on it: ${successor}.`;
  expect(await advice()).toEndWith(`Keys of its license that work: ${old}. ${later}`);
  await client.send(`/keys/${keyId}/suspend`, { cookie: editor, form: {} });
  expect(await advice()).toMatch(
    /^Stolen\? The keys that were issued before it was last seen no longer work\. The license that was signed/,
  );
  expect(await advice()).toEndWith(`Nothing ends it earlier. ${later}`);
});

test("Machines are listed newest first, by state and license, and ten of them on the page of their account", async () => {
  const license = await licenseWith(admin.database, { maxMachines: 12 });
  for (let n = 1; n <= 12; n++) await activate(license, `laptop ${n}`);
  const ofLicense = `/machines?license=${toId("lic", license.licenseUuid)}`;
  const text = await open(`${ofLicense}&state=active`);
  expect(textsOf(text, "tbody th")).toHaveLength(12);
  expect(textsOf(text, "tbody th")[0]).toBe("laptop 12");
  const [account = ""] = attributesOf(text, "tbody a[href^='/console/accounts/']", "href");
  const page = await open(account.replace("/console", ""));
  expect(page).toContain("The 10 newest ones");
  const all = await open(linkTo(page, "Show all machines"));
  expect(textsOf(all, "caption")[0]).toStartWith("12 machines, newest first");
  expect(await open(`${ofLicense}&state=released`)).toContain("No machine meets these conditions.");
});

test("Only an admin who has just logged in frees the place of a lost license file, with a reason", async () => {
  const license = await licenseWith(admin.database, { maxMachines: 1 });
  const id = await activate(license, "Burned laptop");
  const path = `/machines/${id}`;
  const summaries = async (cookie: string) => textsOf(await open(path, cookie), ".action > summary");
  let { cookie } = await client.logIn("admin");
  expect(await summaries(cookie)).toEqual(["Release…"]);
  await setEnd(admin.database, parseId("mch", id) ?? "", { signed_until: 60 });
  expect(await summaries(editor)).toEqual(["Release…"]);
  expect(await summaries(cookie)).toEqual(["Release…", "Free its place…"]);
  const works = /The license that was signed for the machine still works without a network until \S+Z\./;
  expect(textsOf(await open(path, cookie), "#free")[0]).toMatch(works);

  const form = { reason: "the laptop burned" };
  for (const other of [viewer, editor])
    expect((await client.send(`${path}/free`, { cookie: other, form })).status).toBe(403);
  const missing = await client.submit(`${path}/free`, { cookie, form: { reason: " " } });
  expect(missing.status).toBe(400);
  expect(textsOf(missing.text, "#free-reason-error")).toEqual([
    "It must be one line of 1 to 2000 characters",
  ]);
  admin.clock.advance(300_001);
  const old = await client.submit(`${path}/free`, { cookie, form });
  expect(old.status).toBe(403);
  expect(textsOf(old.text, "#free .notice")[0]).toContain("logged in within the last five minutes");
  expect(await open(path)).toContain("Its signed license ends");

  ({ cookie } = await client.logIn("admin"));
  const { text } = await client.submit(`${path}/free`, { cookie, form });

  expect(textsOf(text, ".notice")[0]).toMatch(works);
  expect(textsOf(text, ".notice")[0]).toContain("The place is free.");
  expect(textsOf(text, ".action")).toEqual([]);
  await activate(license, "A new laptop");
  const rows = await admin.database.query(
    (sql) =>
      sql`select reason from audit where action = 'machine.free' and license_id = ${license.licenseUuid}::uuid`,
  );
  expect(rows).toEqual([form]);
});
