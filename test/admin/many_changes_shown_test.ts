/** An action on many keys first shows for each license what it is and what it becomes, and shortens none by mistake. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { NEVER_EXPIRES } from "../../src/base/calendar.ts";
import {
  type IssuedKey,
  type RotatedKey,
  revokeKey,
  rotateKey,
  suspendKey,
} from "../../src/licensing/keys/mod.ts";
import {
  changeLicense,
  changeTier,
  createLicenseChanges,
  type LicenseChange,
} from "../../src/licensing/mod.ts";
import { ACTOR, BRAND, orThrow } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { placeMachine } from "../support/machines.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { use } from "./list_kit.ts";
import { textsOf } from "./texts_of.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
const DAY = 86_400_000;
let cookie: string;
let beganMs = 0;
beforeAll(async () => {
  beganMs = Math.floor(admin.clock.nowMs() / 1_000) * 1_000;
  ({ cookie } = await client.logIn("admin"));
});

/** The same moment at each call. */
const inDays = (days: number) => new Date(beganMs + days * DAY);
const dayOf = (at: Date) => at.toISOString().slice(0, 10);
const changes = () => createLicenseChanges(admin.database);
const by = () => ({ actor: ACTOR, now: admin.clock.now() });

async function post(action: string, form: Record<string, string>) {
  const { status, text } = await client.send(`/keys/many/${action}`, { cookie, form });
  const plain = text
    .replaceAll(/<(?!input)[^>]*>/g, " ")
    .replaceAll(/<input[^>]*>/g, " ")
    .replaceAll(/\s+/g, " ");
  const [, run = ""] = text.split(`action="/console/keys/many/${action}"`);
  const inputs = (run.split("</form>")[0] ?? "").matchAll(/<input type="hidden" name="(.*?)" value="(.*?)"/g);
  const next = Object.fromEntries([...inputs].map(([, name = "", value = ""]) => [name, value]));
  return { status, text, plain, next, said: /role="status">(.*?)<\/p>/.exec(text)?.[1] };
}

const idsOf = (keys: readonly { readonly id: string }[]) => keys.map(({ id }) => id).join(" ");
const fieldsFor = (keys: readonly { readonly id: string }[], more: Record<string, string> = {}) => ({
  ...{ id: idsOf(keys), total: String(keys.length), conditions: "", which: "rows of the list" },
  ...more,
});

async function valuesOf({ licenseUuid }: Pick<IssuedKey, "licenseUuid">) {
  const [row] = await admin.database.query<Record<string, unknown>>(
    (sql) =>
      sql`select tier, monthly_limit, max_machines, expires_at from licenses where id = ${licenseUuid}::uuid`,
  );
  return row ?? {};
}
const endOf = async (key: Pick<IssuedKey, "licenseUuid">) => (await valuesOf(key)).expires_at as Date;
async function stateOf(key: IssuedKey) {
  const [row] = await admin.database.query(
    (sql) => sql`select state from keys where id = ${uuidOf(key)}::uuid`,
  );
  return row?.state;
}
const countRows = async () => (await listAudit(admin.database, { limit: 100_000 })).length;

const rotate = async (key: IssuedKey): Promise<RotatedKey> =>
  orThrow(
    await rotateKey(
      changes(),
      { uuid: uuidOf(key), mode: "live", overlapMs: 7 * DAY },
      { ...by(), brand: BRAND },
    ),
  );

const meanwhile = async (key: IssuedKey, change: LicenseChange) =>
  orThrow(await changeLicense(changes(), { licenseUuid: key.licenseUuid }, { ...by(), change }));

describe("Renew", () => {
  test("to one day leaves out what would end earlier, says so, and counts the license of a rotated key once", async () => {
    const [soon, long, endless] = [
      await admin.issue({ email: "soon@example.org", expiresAt: inDays(20) }),
      await admin.issue({ email: "long@example.org", expiresAt: inDays(300) }),
      await admin.issue({ email: "endless@example.org", expiresAt: NEVER_EXPIRES }),
    ];
    const successor = await rotate(long);
    const day = dayOf(inDays(200));
    const form = fieldsFor([soon, long, successor, endless], { term: "day", last_day: day });
    const before = await countRows();

    const shown = await post("renew", form);

    expect(shown.status).toBe(200);
    expect(shown.plain).toContain("Nothing is changed yet. 1 license will change , of one account.");
    expect(shown.plain).toContain(`expiry: ${dayOf(inDays(20))} → ${day}`);
    expect(shown.plain).toContain("Left out: 2 licenses.");
    expect(shown.plain).toContain(
      `long@example.org: Cannot renew license: the expiry would become earlier, from ${inDays(300).toISOString().slice(0, 19)}Z to ${day}T23:59:59Z.`,
    );
    expect(shown.plain).toContain("from never to");
    expect(shown.text).toContain('value="1"/>');
    expect(await countRows()).toBe(before);

    const run = await post("renew", shown.next);

    expect(run.said).toBe("Renew: 1 license done. Failed: 0. Left: 0.");
    expect(run.plain).toContain(`What was changed Key Account Change`);
    expect(run.plain).toContain(`expiry: ${dayOf(inDays(20))} → ${day}`);
    expect((await endOf(soon)).toISOString()).toBe(`${day}T23:59:59.000Z`);
    expect(await endOf(long)).toEqual(inDays(300));
    expect(await endOf(endless)).toEqual(NEVER_EXPIRES);
    expect(await countRows()).toBe(before + 1);
  });

  test("shortens with the box, after a warning that counts them", async () => {
    const [soon, long] = [
      await admin.issue({ expiresAt: inDays(20) }),
      await admin.issue({ expiresAt: inDays(300) }),
    ];
    const day = dayOf(inDays(200));
    const form = fieldsFor([soon, long], { term: "day", last_day: day, shorten: "yes" });

    const shown = await post("renew", form);

    expect(shown.plain).toContain("Earlier end: 1 of 2 licenses.");
    // It comes first.
    expect(shown.plain).toMatch(
      new RegExp(`${dayOf(inDays(300))} → ${day} earlier end.*${dayOf(inDays(20))} → ${day}`),
    );
    expect((await post("renew", shown.next)).said).toBe("Renew: 2 licenses done. Failed: 0. Left: 0.");
    for (const key of [soon, long]) expect(dayOf(await endOf(key))).toBe(day);
  });

  test("by a year from each expiry adds one year, however often it is sent and whichever keys are selected", async () => {
    const [one, two, endless] = [
      await admin.issue({ expiresAt: new Date("2028-02-29T12:00:00Z") }),
      await admin.issue({ expiresAt: inDays(300) }),
      await admin.issue({ expiresAt: NEVER_EXPIRES }),
    ];
    const ended = await admin.issue({ expiresAt: inDays(300) });
    await admin.database.query(
      (sql) => sql`update licenses set expires_at = '2020-01-01' where id = ${ended.licenseUuid}::uuid`,
    );
    const successor = await rotate(two);
    const before = await countRows();
    const form = fieldsFor([one, two, successor, endless, ended], { term: "year" });

    const shown = await post("renew", form);

    expect(shown.plain).toContain("3 licenses will change");
    expect(shown.plain).toContain("2028-02-29 → 2029-02-28");
    expect(shown.plain).toContain("and 1 more key of this license");
    expect(shown.plain).toContain("Left out, because they are so already: 1 key");
    admin.clock.advance(90_000);
    const runs = [await post("renew", shown.next), await post("renew", shown.next)];
    expect(runs.map(({ said }) => said)).toEqual(
      Array(2).fill("Renew: 3 licenses done. Failed: 0. Left: 0."),
    );
    expect((await endOf(one)).toISOString()).toBe("2029-02-28T12:00:00.000Z");
    const inYear = inDays(300);
    inYear.setUTCFullYear(inYear.getUTCFullYear() + 1);
    expect(await endOf(two)).toEqual(inYear);
    expect(await endOf(endless)).toEqual(NEVER_EXPIRES);
    expect(await countRows()).toBe(before + 3);
  });

  test("changes nothing that was changed after it was shown, and shows it again", async () => {
    const [one, two] = [
      await admin.issue({ expiresAt: inDays(20) }),
      await admin.issue({ expiresAt: inDays(20) }),
    ];
    const form = fieldsFor([one, two], { term: "day", last_day: dayOf(inDays(200)), shorten: "yes" });
    const shown = await post("renew", form);
    await meanwhile(one, { expiresAt: inDays(900) });

    const run = await post("renew", shown.next);

    expect(run.said).toBe("Renew: 1 license done. Failed: 1. Left: 0.");
    expect(run.plain).toContain("it was changed after these values were shown");
    expect(await endOf(one)).toEqual(inDays(900));
    const again = await post("renew", run.next);
    expect(again.plain).toContain(`expiry: ${dayOf(inDays(900))} → ${dayOf(inDays(200))} earlier end`);
    expect(await endOf(one)).toEqual(inDays(900));
  });

  test("of nothing that would change offers no change", async () => {
    const key = await admin.issue({ expiresAt: NEVER_EXPIRES });
    const shown = await post("renew", fieldsFor([key], { term: "never" }));
    expect(shown.plain).toContain("0 licenses will change");
    expect(shown.text).not.toContain('action="/console/keys/many/renew"');
  });
});

describe("Tier, limit and machines", () => {
  const VALUES = {
    tier: "research",
    monthlyLimit: 70_000,
    maxMachines: 5,
    expiresAt: NEVER_EXPIRES,
  } as const;
  test("say which license is refused after the change, because more is used, and count these", async () => {
    const keys = [await admin.issue({ tier: "research" }), await admin.issue({ tier: "research" })];
    await use(admin, keys[1] as IssuedKey, 20_422);
    const shown = await post("tier", fieldsFor(keys, { tier: "free" }));
    expect(shown.plain).toContain("keys are refused: 1 of 2 licenses");
    expect(shown.plain).toContain("quota of the month: 29,578 left → used up (20,422 used) keys are refused");
    expect((await post("tier", shown.next)).plain).toContain("→ used up (20,422 used) keys are refused");
    const raised = await post("limit", fieldsFor(keys, { monthly_limit: "30000" }));
    expect(raised.plain).toContain("quota of the month: used up (20,422 used) → 9,578 left");
    expect(raised.plain).not.toContain("keys are refused");
  });

  test("say how many keys the licenses have, selected or not, without the revoked ones", async () => {
    const [one, old] = [await admin.issue(), await admin.issue()];
    await rotate(one);
    const two = await rotate(old);
    await revokeKey(changes(), { uuid: uuidOf(old) }, by());
    const page = await client.send("/keys/many", { cookie, form: { id: idsOf([one, two, old]) } });
    const formOf = (action: string) => textsOf(page.text, `#${action}-form p`)[0];
    expect(formOf("tier")).toBe(
      "2 licenses of 2 accounts. They have 3 keys that are not revoked. For each of them:",
    );
    expect(formOf("suspend")).toBe("2 keys of 2 accounts. For each of them:");
    const shown = await post("tier", fieldsFor([one, two], { tier: "commercial" }));
    expect(shown.plain).toContain(
      "2 licenses will change , of 2 accounts. They have 3 keys that are not revoked. Selected:",
    );
    const alone = await post("tier", fieldsFor([one], { tier: "commercial" }));
    expect(alone.plain).toContain("of one account. It has 2 keys that are not revoked. Selected:");
    const suspended = await post("suspend", fieldsFor([one, two]));
    expect(suspended.plain).toContain("2 keys will change , of 2 accounts. Selected:");
  });

  test("say of which licenses more places are taken than they would have, and count these", async () => {
    const keys = [await admin.issue({ maxMachines: 5 }), await admin.issue({ maxMachines: 5 })];
    const [one] = keys as [IssuedKey];
    const on = { licenseUuid: one.licenseUuid, keyUuid: uuidOf(one) };
    for (const name of ["one", "two", "three"]) await placeMachine(admin.database, on, name);
    const shown = await post("machines", fieldsFor(keys, { max_machines: "2" }));
    expect(shown.plain).toContain("no place for another machine: 1 of 2 licenses");
    expect(shown.plain).toContain("places taken: 3 of 5 → 3 of 2 no place for another machine");
    expect(await valuesOf(one)).toMatchObject({ max_machines: 5 });
    expect((await post("machines", shown.next)).said).toBe(
      "Change machines: 2 licenses done. Failed: 0. Left: 0.",
    );
    expect(await valuesOf(one)).toMatchObject({ max_machines: 2 });
  });

  test.each([
    [
      "tier",
      { tier: "free" },
      [
        "tier: research → free lower tier",
        "features streaming, training, calibration, model_export: included → not included fewer features",
      ],
      "Lower tier: 2 of 2 licenses; lower monthly limit: 1 of 2 licenses; fewer features: 2 of 2 licenses.",
    ],
    [
      "tier",
      { tier: "commercial" },
      [
        "tier: research → commercial",
        "monthly limit: 50,000 → 500,000",
        "features custom_models, priority_support: not included → included",
      ],
      undefined,
    ],
    [
      "limit",
      { monthly_limit: "60,000" },
      ["monthly limit: 70,000 → 60,000 lower monthly limit", "monthly limit: 50,000 → 60,000"],
      "Lower monthly limit: 1 of 2 licenses.",
    ],
    [
      "limit",
      { monthly_limit: "" },
      ["monthly limit: 70,000 → 50,000 lower"],
      "Lower monthly limit: 1 of 1 license.",
    ],
    [
      "machines",
      { max_machines: "3" },
      ["machines: 5 node-locked machines → 3 node-locked machines fewer machines"],
      "Fewer machines: 2 of 2 licenses.",
    ],
    ["machines", { max_machines: "" }, ["5 node-locked machines → not counted"], undefined],
  ])("are shown before the change: %s %j", async (action, fields, rows, loss) => {
    const keys = [
      await admin.issue(VALUES),
      await admin.issue({ tier: "research", expiresAt: NEVER_EXPIRES }),
    ];
    const before = await Promise.all(keys.map(valuesOf));

    const shown = await post(action, fieldsFor(keys, fields as unknown as Record<string, string>));

    for (const row of rows) expect(shown.plain).toContain(row);
    if (loss) expect(shown.plain).toContain(loss);
    else expect(shown.plain).not.toMatch(/(Lower|Fewer|Earlier) [a-z ]+: \d/);
    expect(await Promise.all(keys.map(valuesOf))).toEqual(before);
    const run = await post(action, shown.next);
    expect(run.said).toMatch(/done. Failed: 0. Left: 0.$/);
    for (const row of rows) expect(run.plain).toContain(row);
  });

  test("refuse a wrong field in the form, also seat minutes without a number of machines", async () => {
    const key = await admin.issue();
    const { status, text } = await post("machines", fieldsFor([key], { seat_minutes: "15" }));
    expect(status).toBe(400);
    expect(text).toContain("seat minutes need a machine limit");
  });
});

describe("Features and values", () => {
  const UNTIL = { granted: true, until: "2030-06-30T23:59:59Z" } as const;
  const ownOf = async ({ licenseUuid }: IssuedKey) => {
    const [row] = await admin.database.query(
      (sql) => sql`select own_features, own_entitlements from licenses where id = ${licenseUuid}::uuid`,
    );
    return row;
  };
  const setTier = async (change: Record<string, number | null>) =>
    orThrow(await changeTier(changes(), { ...by(), tier: "research", change }));
  beforeAll(() => setTier({ channels: 32 }));
  afterAll(() => setTier({ channels: null }));

  test("are shown before the change with what each license loses, and then changed", async () => {
    const [plain, granted, full] = [
      await admin.issue({ email: "plain@example.org" }),
      await admin.issue({ ownFeatures: { streaming: { granted: true } } }),
      await admin.issue({
        email: "full@example.org",
        ownFeatures: Object.fromEntries(Array.from({ length: 32 }, (_, n) => [`f${n}`, { granted: true }])),
      }),
    ];
    const form = fieldsFor([plain, granted, full], { feature: "streaming", decided: "withdrawn" });
    const before = await countRows();

    const shown = await post("features", form);

    expect(shown.plain).toContain("2 licenses will change");
    expect(shown.plain).toContain("feature streaming: as the tier has it → withdrawn fewer features");
    expect(shown.plain).toContain("feature streaming: granted → withdrawn fewer features");
    expect(shown.plain).toContain("Fewer features: 2 of 2 licenses.");
    // What is wrong with one license alone leaves the others.
    expect(shown.plain).toContain(
      "full@example.org: Cannot change features: a license has at most 32 features beside its tier",
    );
    expect(await countRows()).toBe(before);
    const run = await post("features", shown.next);
    expect(run.said).toBe("Change features: 2 licenses done. Failed: 0. Left: 0.");
    expect(run.plain).toContain("feature streaming: granted → withdrawn");
    expect(await ownOf(plain)).toMatchObject({ own_features: { streaming: { granted: false } } });
    expect(await countRows()).toBe(before + 2);
  });

  test("leave out a license whose feature would end earlier, and name it", async () => {
    const [endless, none] = [
      await admin.issue({
        email: "endless-feature@example.org",
        ownFeatures: { on_premise: { granted: true } },
      }),
      await admin.issue(),
    ];
    const fields = { feature: "on_premise", decided: "granted", until: "2030-06-30" };
    const shown = await post("features", fieldsFor([endless, none], fields));
    expect(shown.plain).toContain("1 license will change");
    expect(shown.plain).toContain(
      "endless-feature@example.org: Cannot change features: the end of the feature on_premise would become earlier, from never to 2030-06-30T23:59:59Z.",
    );
    expect((await post("features", shown.next)).said).toMatch(/: 1 license done. Failed: 0. Left: 0.$/);
    expect(await ownOf(endless)).toMatchObject({ own_features: { on_premise: { granted: true } } });
    expect(await ownOf(none)).toMatchObject({ own_features: { on_premise: UNTIL } });
  });

  test("show a value of the tier before a license gets its own, and after it loses it", async () => {
    const [plain, own] = [await admin.issue(), await admin.issue({ ownEntitlements: { channels: 64 } })];
    const lower = await post("values", fieldsFor([plain, own], { own_entitlements: "channels=16" }));
    expect(lower.plain).toContain("value channels: 32 by the tier → 16 lower value");
    expect(lower.plain).toContain("value channels: 64 → 16 lower value");
    const run = await post("values", lower.next);
    expect(run.said).toBe("Change values: 2 licenses done. Failed: 0. Left: 0.");
    expect(run.plain).toContain("value channels: 32 by the tier → 16");
    const removed = await post("values", fieldsFor([own], { own_entitlements: "channels=" }));
    expect(removed.plain).toContain("value channels: 16 → 32 by the tier");
    expect(removed.plain).not.toContain("lower value");
  });

  test("of another tier are shown, and again after the change", async () => {
    const key = await admin.issue({ tier: "free" });
    const shown = await post("tier", fieldsFor([key], { tier: "research" }));
    expect(shown.plain).toContain("value channels: none → 32 by the tier");
    expect((await post("tier", shown.next)).plain).toContain("value channels: none → 32 by the tier");
  });

  test.each([
    ["features", { feature: "streaming", decided: "withdrawn" }, { ownFeatures: { streaming: UNTIL } }],
    ["values", { own_entitlements: "channels=16" }, { ownEntitlements: { channels: 128 } }],
  ])(
    "are left as they are if somebody changed them after they were shown: %s",
    async (action, fields, other) => {
      const [key, same] = [await admin.issue(), await admin.issue()];
      const shown = await post(action, fieldsFor([key, same], fields as unknown as Record<string, string>));
      await meanwhile(key, other);
      const own = await ownOf(key);

      const run = await post(action, shown.next);

      expect(run.said).toMatch(/: 1 license done. Failed: 1. Left: 0.$/);
      expect(run.plain).toContain("it was changed after these values were shown");
      expect(await ownOf(key)).toEqual(own as object);
    },
  );

  /** Returns the fields of the second page with one part of what it showed of the only license altered. */
  const altered = ({ id = "", ...next }: Record<string, string>, at: number, text: string) => {
    const [key = "", ...parts] = id.split(".");
    return { ...next, id: [key, ...parts.with(at, text)].join(".") };
  };
  const OWN = { ownFeatures: { streaming: UNTIL }, ownEntitlements: { channels: 128 } } as const;
  const STORED = { own_features: OWN.ownFeatures, own_entitlements: OWN.ownEntitlements };

  test.each(["null", "5", "[]", '"text"', "{", '{"streaming": null}', '{"streaming": 5}', '{"no name": {}}'])(
    "are left as they are, without a failure, if those that a form showed were altered: %s",
    async (json) => {
      const [key, other] = [await admin.issue(OWN), await admin.issue({ ownEntitlements: { channels: 16 } })];
      const shown = await post("values", fieldsFor([key], { own_entitlements: "channels=17" }));
      const next = await post("values", fieldsFor([other], { own_entitlements: "channels=17" }));
      const before = await countRows();
      // The words of the features and of the values are the last parts.
      for (const at of [-2, -1]) {
        const form = altered(shown.next, at, Buffer.from(json).toString("base64url"));
        const run = await post("values", form);
        expect([run.status, run.said]).toEqual([200, "Change values: 0 licenses done. Failed: 1. Left: 0."]);
        expect(run.plain).toContain("it was changed after these values were shown");
        const last = await post("values", { ...next.next, changed: form.id });
        expect([last.status, last.plain]).toEqual([200, expect.stringContaining("What was changed")]);
      }
      expect(await ownOf(key)).toEqual(STORED);
      // Only the other license was changed.
      expect(await countRows()).toBe(before + 1);
    },
  );

  test("are left as they are, without a failure, if the numbers and days that a form showed were altered", async () => {
    const places = { maxMachines: 6, seatMinutes: 15 };
    const ends = { expiresAt: inDays(20), updatesUntil: inDays(10) };
    const key = await admin.issue({ ...OWN, ...places, ...ends, tier: "research" });
    const shown = await post("values", fieldsFor([key], { own_entitlements: "channels=16" }));
    const before = await countRows();
    for (const at of [0, 1, 2, 3, 4, 5]) {
      for (const text of ["x", "", "1e400", "7", "9".repeat(14)]) {
        const { status, plain } = await post("values", altered(shown.next, at, text));
        expect({ at, text, status }).toEqual({ at, text, status: 200 });
        expect(plain).toContain("it was changed after these values were shown");
      }
    }
    expect(await ownOf(key)).toEqual(STORED);
    expect(await countRows()).toBe(before);
  });

  test("of so many licenses that a form has no room for them are refused before the change", async () => {
    const long = Object.fromEntries(Array.from({ length: 4 }, (_, n) => [`v${n}`, "x".repeat(950)]));
    const keys: IssuedKey[] = [];
    for (let n = 0; n < 200; n++) keys.push(await admin.issue({ ownEntitlements: long }));
    const { status, plain } = await post("values", fieldsFor(keys, { own_entitlements: "v0=y" }));
    expect(status).toBe(400);
    expect(plain).toContain("do not fit into a form: select fewer keys");
    const some = await post("values", fieldsFor(keys.slice(0, 150), { own_entitlements: "v0=y" }));
    expect((await post("values", some.next)).said).toContain("50 licenses done.");
  }, 60_000);
});

test.each([
  ["suspend", "active", "suspended", "Refused until it is resumed: 1 of 1 key."],
  ["revoke", "active", "revoked", "Refused for good: 1 of 1 key."],
])("%s shows the state before and after", async (action, from, to, loss) => {
  const key = await admin.issue();
  const shown = await post(action, fieldsFor([key], { repeat: "1" }));
  expect(shown.plain).toContain(`state: ${from} → ${to}`);
  expect(shown.plain).toContain(loss);
  const run = await post(action, shown.next);
  expect(run.plain).toContain(`state: ${from} → ${to}`);
});

test.each([
  {
    action: "suspend",
    first: [],
    shownAs: "active",
    meanwhile: revokeKey,
    is: "revoked",
    becomes: "suspended",
  },
  {
    action: "resume",
    first: [suspendKey],
    shownAs: "suspended",
    meanwhile: revokeKey,
    is: "revoked",
    becomes: "active",
  },
  {
    action: "revoke",
    first: [],
    shownAs: "active",
    meanwhile: suspendKey,
    is: "suspended",
    becomes: "revoked",
  },
])("$action leaves a key alone that somebody changed after it was shown", async (row) => {
  const { action, shownAs, is } = row;
  const [changed, same] = [await admin.issue(), await admin.issue()];
  const set = async (to: typeof suspendKey | typeof revokeKey, key: IssuedKey) => {
    const uuid = uuidOf(key);
    orThrow(
      await (to === revokeKey ? revokeKey(changes(), { uuid }, by()) : suspendKey(changes(), uuid, by())),
    );
  };
  for (const key of [changed, same]) for (const step of row.first) await set(step, key);
  const shown = await post(action, fieldsFor([changed, same], { repeat: "2" }));
  await set(row.meanwhile, changed);
  const before = await countRows();

  const run = await post(action, shown.next);

  expect(run.said).toMatch(/: 1 key done. Failed: 1. Left: 0.$/);
  expect(run.plain).toContain(`Cannot ${action} key: it was ${shownAs} when it was shown, and is ${is} now`);
  expect(await stateOf(changed)).toBe(is);
  expect(await stateOf(same)).toBe(row.becomes);
  expect(await countRows()).toBe(before + 1);
});

test("The forms of one account and of a rotation show the days before they change them", async () => {
  const key = await admin.issue({ email: "forms@example.org", expiresAt: new Date("2027-03-01T10:00:00Z") });
  await admin.issue({ email: "forms@example.org", expiresAt: NEVER_EXPIRES });
  const textOf = async (path: string) => {
    const { text } = await client.send(path, { cookie });
    return text.replaceAll(/<[^>]*>/g, " ").replaceAll(/\s+/g, " ");
  };
  const account = await textOf(`/accounts/${key.userId}`);
  expect(account).toContain("One license gets another year.");
  expect(account).toContain(`lic_${key.licenseUuid.replaceAll("-", "")}`);
  expect(account).toContain("2027-03-01 → 2028-03-01");
  expect(await textOf(`/keys/${key.id}`)).toContain(
    `0 ends the old key at once: all programs that use it are refused until they have the new one. 7 days end it on ${dayOf(new Date(admin.clock.nowMs() + 7 * DAY))}, or with its license if that is earlier.`,
  );
});
