/** The machines of a list are released together: what the page says before, what it changes, and for whom. */
import { beforeAll, describe, expect, test } from "bun:test";
import { parseId, toId } from "../../src/base/ids.ts";
import { listMachines } from "../../src/licensing/machines/mod.ts";
import { licenseWith, placeMachine, setEnd, setSeen } from "../support/machines.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, textsOf } from "./texts_of.ts";

const OLD_MS = 300_001;

const admin = useAdmin();
const client = createConsoleClient(admin);
let editor: string;
beforeAll(async () => {
  editor = (await client.logIn("editor")).cookie;
});

const uuidOf = (id: string) => parseId("mch", id) ?? "";

/** A license with active machines that were not seen for 40 days, and one that was. */
async function withUnseen(count: number) {
  const license = await licenseWith(admin.database, { maxMachines: count + 1 });
  const ids: string[] = [];
  for (let n = 0; n <= count; n++) ids.push(toId("mch", await placeMachine(admin.database, license, `${n}`)));
  const unseen = ids.slice(0, count);
  await setSeen(admin.database, unseen.map(uuidOf), 40);
  const conditions = `license=${toId("lic", license.licenseUuid)}&unseen=30d`;
  const { licenseUuid } = license;
  return { licenseUuid, unseen, conditions, seen: ids.slice(count) };
}

async function activeOf(licenseUuid: string): Promise<string[]> {
  const machines = await listMachines(admin.database, { filter: { licenseUuid, state: "active" } });
  return machines.map(({ id }) => id);
}

const preview = (form: Record<string, string>, cookie = editor) =>
  client.send("/machines/many?open=release", { cookie, form });

/** Returns the hidden fields of the form that releases. */
function fieldsIn(text: string): Record<string, string> {
  const [, form = ""] = text.split('action="/console/machines/many/release"');
  const [inside = ""] = form.split("</form>");
  const names = attributesOf(inside, "input[type=hidden]", "name");
  const values = attributesOf(inside, "input[type=hidden]", "value");
  return Object.fromEntries(names.map((name, at) => [name, values[at] ?? ""]));
}

const run = (form: Record<string, string>, cookie = editor) =>
  client.send("/machines/many/release", { cookie, form });

const countRows = async (reason: string) =>
  (
    await admin.database.query(
      (sql) => sql`select from audit where action = 'machine.release' and reason = ${reason}`,
    )
  ).length;

describe("The list of machines", () => {
  const button = async (conditions: string, cookie = editor) =>
    textsOf(
      (await client.send(`/machines?${conditions}`, { cookie })).text,
      "form[action^='/console/machines/many'] button",
    );

  test("shows those that were not seen for so long, and offers to release all of them", async () => {
    const { unseen, conditions, licenseUuid } = await withUnseen(2);
    const { text } = await client.send(`/machines?${conditions}`, { cookie: editor });
    expect(textsOf(text, "tbody th")).toHaveLength(2);
    expect(textsOf(text, ".folded > summary")[0]).toMatch(/^Conditions: license lic_\S+, unseen \d+[dh]$/);
    expect(await button(conditions)).toEqual(["Release all 2 active machines…"]);
    expect(await activeOf(licenseUuid)).toEqual(expect.arrayContaining(unseen));
  });

  test("offers it to no viewer, for no machine, and without a condition to nobody", async () => {
    const { conditions } = await withUnseen(1);
    const viewer = (await client.logIn("viewer")).cookie;
    expect(await button(conditions, viewer)).toEqual([]);
    expect(await button(`${conditions}&state=released`)).toEqual([]);
    expect(await button(conditions.replace("30d", "90d"))).toEqual([]);
    expect(await button("sort=oldest")).toEqual([]);
  });
});

describe("All machines that meet the conditions", () => {
  test("are shown before, with the places that become free, and released after", async () => {
    const { unseen, seen, conditions, licenseUuid } = await withUnseen(3);
    await setEnd(admin.database, uuidOf(unseen[0] ?? ""), { signed_until: 60 });

    const shown = await preview({ conditions });

    expect(textsOf(shown.text, "h1")).toEqual(["3 active machines"]);
    expect(textsOf(shown.text, "#release b")[0]).toMatch(
      /^3 active machines of 1 license: 2 places become free at once, and 1 place stays taken by a signed license, until \S+Z at most\.$/,
    );
    expect(textsOf(shown.text, "main > p")[0]).toMatch(
      /^Selected: all with license: lic_\S+, unseen: 30d\.$/,
    );
    expect(textsOf(shown.text, "tbody th")).toHaveLength(3);
    expect(textsOf(shown.text, "#release button")).toEqual(["Release 3 machines"]);
    expect(await activeOf(licenseUuid)).toHaveLength(4);

    const fields = fieldsIn(shown.text);
    expect(fields.id?.split(" ")).toEqual(unseen);
    const done = await run({ ...fields, reason: "the old laboratory" });

    expect(done.status).toBe(200);
    expect(textsOf(done.text, "[role=status]")[0]).toMatch(
      /^Released 3 machines: 2 places are free, and 1 place stays taken by a signed license, until \S+Z at most\.$/,
    );
    expect(done.text).toContain(`href="/console/machines?${conditions.replaceAll("&", "&amp;")}"`);
    expect(await activeOf(licenseUuid)).toEqual(seen);
    expect(await countRows("the old laboratory")).toBe(3);
  });

  test("are exactly those that were shown, and what changed since is reported", async () => {
    const { unseen, seen, conditions, licenseUuid } = await withUnseen(2);
    const fields = fieldsIn((await preview({ conditions })).text);
    await setSeen(admin.database, seen.map(uuidOf), 40);
    await admin.call("POST", `/machines/${unseen[0]}/release`, { body: {} });

    const done = await run({ ...fields, reason: "only the shown ones" });

    expect(textsOf(done.text, "[role=status]")[0]).toBe(
      "Released 1 machine: 1 place is free, and none stays taken by a signed license; not released: 1 machine.",
    );
    expect(textsOf(done.text, "main li")[0]).toContain("Cannot release machine: it holds no place.");
    expect(done.text).not.toContain("Try again");
    expect(await activeOf(licenseUuid)).toEqual(seen);
    expect(await countRows("only the shown ones")).toBe(1);
  });

  test("are released by nobody without the ids that were shown, and by no viewer", async () => {
    const { conditions, licenseUuid } = await withUnseen(1);
    const viewer = (await client.logIn("viewer")).cookie;
    expect((await preview({ conditions }, viewer)).status).toBe(403);
    const fields = fieldsIn((await preview({ conditions })).text);
    expect((await run(fields, viewer)).status).toBe(403);
    const refused = await run({ conditions });
    expect(refused.status).toBe(400);
    expect(refused.text).toContain("No machine is selected: show the machines that meet some condition.");
    for (const wrong of ["", "sort=oldest", "unseen=long", "colour=red", "account=nobody@example.org"]) {
      const { status, text } = await preview({ conditions: wrong });
      expect({ wrong, isRefused: status === 400 || status === 404 }).toEqual({ wrong, isRefused: true });
      expect(text).not.toContain("/console/machines/many/release");
    }
    expect(await activeOf(licenseUuid)).toHaveLength(2);
  });

  test("are at most 500", async () => {
    const { unseen } = await withUnseen(1);
    const many = { id: Array.from({ length: 501 }, () => unseen[0]).join(" ") };
    for (const { status, text } of [await preview(many), await run(many)]) {
      expect(status).toBe(400);
      expect(text).toContain("At most 500 machines are released at once");
    }
  });

  test("need a fresh login if they are more than ten, and the login leads back to the form", async () => {
    const { unseen, conditions, licenseUuid } = await withUnseen(11);
    const { name, cookie } = await client.logIn("editor");
    admin.clock.advance(OLD_MS);
    const fields = fieldsIn((await preview({ conditions }, cookie)).text);

    const refused = await run({ ...fields, reason: "all <b>" }, cookie);

    expect(refused.status).toBe(403);
    expect(textsOf(refused.text, "#release .notice")[0]).toContain(
      "may end more than 10 keys and places of machines within an hour",
    );
    const back = encodeURIComponent("/console/machines/many?open=release#release-form");
    expect(refused.text).toContain(`<a href="/console/enter?fresh=1&amp;to=${back}">Log in again</a>`);
    expect(refused.text).toContain('value="all &lt;b&gt;"');
    expect(attributesOf(refused.text, "form[data-selection] input", "value")).toContain(unseen.join(" "));
    expect(await activeOf(licenseUuid)).toHaveLength(12);
    const again = await client.send("/machines/many?open=release", { cookie });
    expect(attributesOf(again.text, "form[data-selection]", "action")).toEqual([
      "/console/machines/many?open=release",
    ]);

    const fresh = (await client.logIn("editor", name)).cookie;
    expect(textsOf((await run(fields, fresh)).text, "[role=status]")[0]).toStartWith("Released 11 machines");
    expect(await activeOf(licenseUuid)).toHaveLength(1);
  });

  test("count within the hour with those that were released one by one", async () => {
    const { unseen, licenseUuid } = await withUnseen(11);
    const { cookie } = await client.logIn("editor");
    admin.clock.advance(OLD_MS);
    const one = (id: string) => client.send(`/machines/${id}/release`, { cookie, form: {} });
    const [first = "", second = "", ...others] = unseen;
    expect((await one(first)).status).toBe(303);
    expect((await run({ id: [second, ...others].join(" ") }, cookie)).status).toBe(403);
    expect((await run({ id: others.join(" ") }, cookie)).status).toBe(200);
    expect((await one(second)).status).toBe(403);
    expect(await activeOf(licenseUuid)).toHaveLength(2);
  });
});
