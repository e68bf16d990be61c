/** The parser of reports: what it reads, what it refuses, and that altered bytes are never accepted. */
import { describe, expect, test } from "bun:test";
import { toId } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { parseReport } from "../../../src/usage/mod.ts";
import { alterations } from "./alterations.ts";
import {
  createJournal,
  digestOf,
  encode,
  HEADER,
  JOURNAL,
  type Payload,
  parsed,
  payloadOf,
  reportKeyOf,
  signReport,
} from "./report_kit.ts";

const licenseUuid = "019a0000-0000-7000-8000-000000000001";
const of = { licenseUuid };

async function refusal(text: string): Promise<string> {
  const report = await parseReport(text, reportKeyOf);
  if (!isRefusal(report)) return "accepted";
  expect(report.code).toBe("INVALID_REQUEST");
  return report.sentence.replace("Cannot import report: ", "");
}

/** Signs the payload with these fields, and returns why it is refused. */
async function refusalOf(fields: Payload): Promise<string> {
  return await refusal(signReport(payloadOf(of, fields as never), of));
}

const EVENT = { idempotency_key: "a", occurred_at: "2026-11-19T10:00:00Z", event_type: "inference" };

describe("parseReport()", () => {
  test("reads the fields of a report", async () => {
    const text = signReport(payloadOf(of), of);
    const report = await parsed(text);
    expect(report).toEqual({
      licenseUuid,
      machine: String(payloadOf(of).machine),
      journal: JOURNAL,
      number: 1,
      previous: null,
      digest: digestOf(text),
      madeAt: new Date("2026-11-20T11:00:00Z"),
      clients: ["python 0.6.0"],
      months: [
        {
          firstDay: "2026-11-01",
          units: 3,
          byDay: Array.from({ length: 31 }, (_, index) => (index === 18 ? 3 : 0)),
        },
      ],
      days: 1,
      events: [],
    });
    expect(await parsed(text.trimEnd())).toEqual(report);
  });

  test("reads JSON with spaces and in another order", async () => {
    const fields = Object.entries(payloadOf(of)).reverse();
    const report = await parsed(signReport(JSON.stringify(Object.fromEntries(fields), null, 1), of));
    expect(report.months).toHaveLength(1);
  });

  test("refuses what is no report", async () => {
    const none = "the text is no report of use: three parts of base64url on one line, joined by points";
    const text = signReport(payloadOf(of), of);
    const [head, body, signature] = text.trimEnd().split(".");
    for (const wrong of ["", "\n", "a.b.c", text.slice(1), `${text}\n`, ` ${text}`, `${text.trimEnd()}\r\n`])
      expect(await refusal(wrong)).toBe(none);
    for (const wrong of [`${head}.${body}`, `${head}.${body}.${signature}.`, `${head}=.${body}.${signature}`])
      expect(await refusal(wrong)).toBe(none);
    expect(await refusal(`${head}.${body}.${"A".repeat(43)}`)).toStartWith("its signature does not fit");
    expect(await refusal(`${head}.${encode("{}")}.${signature}`)).toBe("it names no license and machine");
  });

  test("refuses other headers, also with a right signature", async () => {
    for (const header of [
      { ...HEADER, alg: "none" },
      { ...HEADER, alg: "EdDSA" },
      { ...HEADER, typ: "license+jwt" },
      { ...HEADER, kid: "a" },
      { alg: "HS256" },
    ])
      expect(await refusal(signReport(payloadOf(of), { ...of, header }))).toStartWith("its header");
  });

  test("refuses the key of another machine or license, and names that stand in it twice", async () => {
    const forged =
      "its signature does not fit: it was changed, or its license was not exported by this installation";
    const other = "019a0000-0000-7000-8000-000000000002";
    expect(await refusal(signReport(payloadOf(of), { licenseUuid: other }))).toBe(forged);
    expect(await refusal(signReport(payloadOf(of), { ...of, fingerprint: "workstation-8" }))).toBe(forged);
    // Signed with the key of the first license, and then another license is named.
    const twice = JSON.stringify(payloadOf(of)).replace(/\}$/, `,"license_id":"${toId("lic", other)}"}`);
    expect(await refusal(signReport(twice, of))).toBe("license_id stands in it twice");
    const machine = JSON.stringify(payloadOf(of)).replace(/\}$/, `,"machine":"${"0".repeat(64)}"}`);
    expect(await refusal(signReport(machine, of))).toBe("machine stands in it twice");
  });

  test("refuses fields that are missing, unknown or wrong", async () => {
    const { clients: _, ...without } = payloadOf(of);
    expect(await refusal(signReport(without, of))).toBe("clients is required");
    for (const [fields, why] of [
      [{ more: 1 }, "the report has a field that is not known"],
      [{ version: 2 }, "version must be 1; a newer Claviger may read it"],
      [{ journal: "A".repeat(32) }, "journal must be 32 hexadecimal digits"],
      [{ number: 0 }, "number must be a whole number, at least 1"],
      [{ number: 1.5 }, "number must be a whole number, at least 1"],
      [{ number: "1" }, "number must be a whole number, at least 1"],
      [{ previous: "x" }, "previous must be null or 64 hexadecimal digits"],
      [{ number: 2 }, "previous must be null in the first report and in no other"],
      [{ previous: "a".repeat(64) }, "previous must be null in the first report and in no other"],
      [{ made_at: "2026-11-20" }, "made_at must be an ISO 8601 time"],
      [{ made_at: 5 }, "made_at must be an ISO 8601 time"],
      [{ clients: ["ü"] }, "clients must be at most 64 texts"],
      [{ clients: new Array(65).fill("a") }, "clients must be at most 64 texts"],
      [{ clients: ["a".repeat(65)] }, "clients must be at most 64 texts"],
      [{ days: [{ day: "2026-11-19", count: null }] }, "days[0] count must be from 0"],
      [{ days: [{ day: "2026-11-19", count: 1, more: 1 }] }, "days[0] has a field that is not known"],
      [{ days: [{ day: "2019-12-31", count: 1 }] }, "days[0] day must be from 2020-01-01 to 2026-11-21"],
      [{ days: [{ day: "2026-11-22", count: 1 }] }, "days[0] day must be from"],
      [{ days: [{ day: "2026-11-31", count: 1 }] }, "days[0] day must be from"],
      [{ days: [{ day: "2026-11-19", count: -1 }] }, "days[0] count must be from 0"],
      [{ days: [{ day: "2026-11-19", count: 1.5 }] }, "days[0] count must be from 0"],
      [{ days: [{ day: "2026-11-19", count: 1e12 }] }, "days[0] count must be from 0"],
      [{ days: [{ day: "2026-11-19", count: 1, failed: 2 }] }, "days[0] failed must be from 0 to count"],
      [{ days: [{ day: "2026-11-19", count: 1, event_type: "x" }] }, "days[0] event_type must be one of"],
      [
        { days: [{ day: "2026-11-19", count: 1, model_name: 5 }] },
        "days[0] model_name must be null or a text",
      ],
      [
        { days: [{ day: "2026-11-19", count: 1, model_name: "\0" }] },
        "days[0] model_name must be null or a text",
      ],
      [
        { days: [1, 2].map((count) => ({ day: "2026-11-19", count })) },
        "days[1] has the day, the kind and the model of another row",
      ],
    ] as const)
      expect(await refusalOf(fields)).toStartWith(why);
    expect(await refusal(signReport({ ...payloadOf(of), days: {} }, of))).toBe(
      "days must be a list of at most 20000 rows",
    );
    const nan = JSON.stringify(payloadOf(of)).replace(/\}$/, ',"__proto__":{"events":[]}}');
    expect(await refusal(signReport(nan, of))).toBe("the report has a field that is not known");
  });

  test("refuses events that are wrong, or that do not add up to the days", async () => {
    const days = [{ day: "2026-11-19", count: 1 }];
    expect(await refusalOf({ days, events: [EVENT] })).toBe("accepted");
    for (const [events, why] of [
      [{}, "events must be a list of at most 100000 events"],
      [[5], "events[0] must be an object"],
      [[{ ...EVENT, api_key: "x" }], "events[0] has a field that is not known"],
      [[{ ...EVENT, idempotency_key: "" }], "events[0] idempotency_key must be"],
      [[{ ...EVENT, occurred_at: "2026-11-19" }], "events[0] occurred_at must be"],
      [[{ ...EVENT, event_type: "x" }], "events[0] event_type must be one of"],
      [[{ ...EVENT, duration_ms: -1 }], "events[0] duration_ms must not be negative"],
      [[{ ...EVENT, metadata: [] }], "events[0] metadata must be"],
      [[EVENT, EVENT], "events[1] idempotency_key is that of another event"],
      [[], "days must be what the events add up to"],
      [[{ ...EVENT, success: false }], "days must be what the events add up to"],
      [[{ ...EVENT, model_name: "" }], "days must be what the events add up to"],
      [[{ ...EVENT, occurred_at: "2026-11-18T23:59:59Z" }], "days must be what the events add up to"],
      [
        [EVENT, { ...EVENT, idempotency_key: "b", event_type: "error" }],
        "days must be what the events add up to",
      ],
    ] as const)
      expect(await refusalOf({ days, events })).toStartWith(why);
  });

  test("replaces keys in the texts of events", async () => {
    const key = `svc_live_${"0123456789abcdef".repeat(3)}`;
    const event = { ...EVENT, event_type: "error", error_message: `no ${key}`, metadata: { url: key } };
    const days = [{ day: "2026-11-19", event_type: "error", count: 1, failed: 1 }];
    const { events } = await parsed(createJournal(licenseUuid).next({ days, events: [event] }));
    expect(events[0]).toMatchObject({ error_message: "no [key]", metadata: { url: "[key]" } });
  });

  test("accepts no altered byte", async () => {
    const text = signReport(payloadOf(of), of);
    for (const altered of alterations(text, { seed: 1, count: 2_000 }))
      expect(await refusal(altered)).not.toBe("accepted");
  });
});
