/** The list of machines, the page of a machine, and the machines on the pages of keys and accounts. */
import { beforeAll, expect, test } from "bun:test";
import { toId } from "../../src/base/ids.ts";
import { activateMachine, createMachineNames } from "../../src/licensing/machines/mod.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { licenseWith, type TestLicense } from "../support/machines.ts";
import { openSecrets } from "../support/secrets.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
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
  expect(textsOf(seen, "h1")).toEqual([`Machine …${id.slice(-6)}`]);
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
