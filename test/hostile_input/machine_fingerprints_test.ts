/** Fingerprints that no honest client sends, and those of other licenses, at the three endpoints of machines. */
import { describe, expect, test } from "bun:test";
import { expectRefusal } from "../support/answers.ts";
import { dumpText } from "../support/dump.ts";
import { setPlaces } from "../support/machines.ts";
import type { JsonResponse } from "../support/service.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();
const ACTIONS = ["activate", "heartbeat", "release"] as const;
type Action = (typeof ACTIONS)[number];

async function issueWithPlaces(maxMachines = 1) {
  const { apiKey, licenseUuid } = await service.issue();
  await setPlaces(service.database, licenseUuid, { maxMachines, seatMinutes: 5 });
  return {
    licenseUuid,
    /** Sends fields, as JSON, besides the key. */
    sendFields: (action: Action, json: string) =>
      service.post(`/v1/machines/${action}`, `{"api_key":"${apiKey}",${json}}`),
    send(action: Action, fingerprint: string) {
      return this.sendFields(action, `"fingerprint":${JSON.stringify(fingerprint)}`);
    },
  };
}

async function countMachines(licenseUuid: string): Promise<number | undefined> {
  const [row] = await service.database.query<{ count: number }>(
    (sql) => sql`select count(*)::int as count from machines where license_id = ${licenseUuid}::uuid`,
  );
  return row?.count;
}

describe("A fingerprint", () => {
  test.each([
    ["that is empty", '""'],
    ["of 7 characters", '"seven77"'],
    ["of 201 characters", `"${"x".repeat(201)}"`],
    ["of 10 KB", `"${"x".repeat(10_000)}"`],
    ["with a tab", '"machine\\tone"'],
    ["with a letter outside of ASCII", '"m\\u00e4chine-one"'],
    ["with NUL", '"machine\\u0000one"'],
    ["with a line's end", '"machine\\none"'],
    ["with an escape of the terminal", '"machine\\u001b[31m"'],
    ["with DEL", '"machine\\u007fone"'],
    ["with an unpaired high surrogate", '"machine\\ud800one"'],
    ["with an unpaired low surrogate", '"\\udc00machine"'],
    ["with two surrogates in the wrong order", '"machine\\udc00\\ud800"'],
    ["with an emoji", '"machine \\ud83d\\ude00"'],
    ["with a letter of another width", '"machine-\\uff11"'],
    ["with a mark of direction", '"machine\\u202eone"'],
    ["that is an array", '["machine-one"]'],
    ["that is an object", '{"toString":"machine-one"}'],
    ["that is a number", "12345678"],
    ["that is null", "null"],
    ["that repeats another one", '"machine-one","fingerprint":"short"'],
  ])("%s is refused by all endpoints, and stores nothing", async (_, json) => {
    const { sendFields, licenseUuid } = await issueWithPlaces();
    for (const action of ACTIONS) {
      const refused = await sendFields(action, `"fingerprint":${json}`);
      expectRefusal(refused, 400, "INVALID_REQUEST");
      expect(refused.body.error).toContain("fingerprint");
      expect(JSON.stringify(refused.body)).not.toContain("machine-one");
    }
    expect(await countMachines(licenseUuid)).toBe(0);
  });

  test("that is missing is refused by all endpoints", async () => {
    const { sendFields } = await issueWithPlaces();
    for (const action of ACTIONS)
      expectRefusal(await sendFields(action, '"name":"Ada"'), 400, "INVALID_REQUEST");
  });

  test.each([
    "'; drop table machines; --",
    "' or '1'='1",
    "$1::text || %s {0}",
    "\\x00\\ud800\\",
    "../../../etc/passwd",
    "__proto__",
    "constructor",
    `${" ".repeat(199)}x`,
    "        ",
  ])("of printable characters is a name and nothing else: %p", async (fingerprint) => {
    const license = await issueWithPlaces();
    const { status, body } = await license.send("activate", fingerprint);
    expect(status).toBe(200);
    expectRefusal(
      await license.send("activate", `${fingerprint.slice(0, 190)}.`),
      409,
      "MACHINE_LIMIT_REACHED",
    );
    expect((await license.send("heartbeat", fingerprint)).body.machine_id).toBe(body.machine_id);
    expect((await license.send("release", fingerprint)).body.machine_id).toBe(body.machine_id);
    expect(await countMachines(license.licenseUuid)).toBe(1);
  });

  test("of another license gets the same answers as an unknown one, while that machine is active and afterwards", async () => {
    const [owner, stranger, full] = [
      await issueWithPlaces(),
      await issueWithPlaces(),
      await issueWithPlaces(),
    ];
    expect((await full.send("activate", "the last place")).status).toBe(200);
    const known = "workstation-of-the-owner";
    const compare = async () => {
      for (const action of ["heartbeat", "release"] as const) {
        const unknown = toComparable(await stranger.send(action, "workstation-of-no-one-"));
        expect(unknown).toMatchObject({ status: 404, body: { code: "MACHINE_NOT_FOUND" } });
        expect(toComparable(await stranger.send(action, known))).toEqual(unknown);
      }
      const refused = toComparable(await full.send("activate", "workstation-of-no-one-"));
      expect(refused).toMatchObject({ status: 409, body: { code: "MACHINE_LIMIT_REACHED" } });
      expect(toComparable(await full.send("activate", known))).toEqual(refused);
    };
    await compare();
    const { body } = await owner.send("activate", known);
    await compare();
    // The owner's machine is untouched, and the stranger's machine of that name is another one.
    expect((await owner.send("heartbeat", known)).body.machine_id).toBe(body.machine_id);
    const own = await stranger.send("activate", known);
    expect(own).toMatchObject({ status: 200, body: { machines: { limit: 1, used: 1 } } });
    expect(own.body.machine_id).not.toBe(body.machine_id);
    await stranger.send("release", known);
    expect((await owner.send("heartbeat", known)).status).toBe(200);
    await owner.send("release", known);
    await compare();
  });

  test("is in no table and no line of the log", async () => {
    const license = await issueWithPlaces(2);
    const fingerprint = "serial-7f3a-of-the-board";
    for (const action of ACTIONS) await license.send(action, fingerprint);
    await license.send("heartbeat", fingerprint);
    for (const action of ACTIONS) await license.send(action, `${fingerprint}\u0001`);
    await service.get(`/v1/machines/activate?fingerprint=${fingerprint}`);
    const everywhere = (await dumpText(service.database)) + service.logLines.join("");
    expect(everywhere).toContain("machine.activate");
    for (const form of [
      fingerprint,
      hexOf(fingerprint),
      Buffer.from(fingerprint).toString("base64"),
      sha256(fingerprint),
    ])
      expect(everywhere).not.toContain(form);
  });
});

/** Returns an answer without the parts that differ between any two answers. */
function toComparable({ status, headers, body }: JsonResponse) {
  const { "x-request-id": _, date: __, "retry-after": wait, ...rest } = Object.fromEntries(headers);
  // Each machine that waits has a moment of its own to ask again.
  return { status, body, headers: rest, waits: wait !== undefined };
}

function hexOf(text: string): string {
  return Buffer.from(text).toString("hex");
}

function sha256(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex");
}
