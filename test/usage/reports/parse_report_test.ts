/** The parser of reports: what it reads, what it refuses, and that altered bytes are never accepted. */
import { describe, expect, test } from "bun:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { toId } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { parseReport } from "../../../src/usage/mod.ts";
import { parsePayload } from "../../../src/usage/reports/parse_payload.ts";
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

/** Counts how often other work ran while a payload was parsed. */
async function countTurns(payload: string): Promise<number> {
  let [turns, isOver] = [0, false];
  const counting = (async () => {
    while (!isOver) {
      await nextTurn();
      turns++;
    }
  })();
  expect(await parsePayload(Buffer.from(payload))).toEqual(JSON.parse(payload));
  isOver = true;
  await counting;
  return turns;
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
    const none =
      "the text is no report of use, which is three parts of base64url on one line, joined by points; ";
    const text = signReport(payloadOf(of), of);
    const [head, body, signature] = text.trimEnd().split(".");
    for (const wrong of [
      "a.b.c",
      text.slice(1),
      `${text}\n`,
      ` ${text}`,
      `${text.trimEnd()}\r`,
      `\ufeff\ufeff${text}`,
    ])
      expect(await refusal(wrong)).toStartWith(none);
    for (const wrong of [`${head}.${body}`, `${head}.${body}.${signature}.`, `${head}=.${body}.${signature}`])
      expect(await refusal(wrong)).toStartWith(none);
    expect(await refusal(`${head}.${body}.${"A".repeat(43)}`)).toStartWith("its signature does not fit");
    expect(await refusal(`${head}.${encode("{}")}.${signature}`)).toBe("it names no license and machine");
  });

  test("reads a line with the end of another system, or with a byte order mark, as the same report", async () => {
    const text = signReport(payloadOf(of), of);
    const report = await parsed(text);
    for (const same of [text.trimEnd(), `${text.trimEnd()}\r\n`, `\ufeff${text}`])
      expect(await parsed(same)).toEqual(report);
  });

  test("says what another file is, and what to do", async () => {
    const text = signReport(payloadOf(of), of);
    const tar = `license.jws${"\0".repeat(246)}ustar\u{0}00`;
    const again = "; send the file as the machine wrote it with `report FILE`";
    for (const [file, why] of [
      ["", `the file is empty${again}`],
      ["\r\n", `the file is empty${again}`],
      [tar, `the file is a tar file, such as a bundle, which the machine opens with \`open-bundle\`${again}`],
      [
        "-----BEGIN LICENSE-----\nLicense: lic_1\n\neyJ.a.b\n-----END LICENSE-----\n",
        `the file is a license, which the machine opens with \`open-bundle\`${again}`,
      ],
      [text + text, "the file has 2 reports; put each into a file of its own"],
      // A field of a form drops the ends of lines.
      [(text + text).replaceAll("\n", ""), "the file has 2 reports; put each into a file of its own"],
      [text.replace(/.{70}/g, "$&\n"), `the file has 9 lines, and a report is one${again}`],
      ["\0\0", `the file has bytes that no report has${again}`],
    ] as const)
      expect(await refusal(file)).toBe(why);
  });

  test("reads events in parts as the whole JSON has them", async () => {
    const events = Array.from({ length: 1_203 }, (_, index) => ({
      ...EVENT,
      idempotency_key: `${index}`,
      model_name: ['a"b', "c\\", '"events": [', "]},{"][index % 4],
      metadata: { list: [1, { of: "]" }] },
    }));
    const names = [...new Set(events.map((each) => each.model_name))];
    const days = names.map((model_name) => ({
      ...{ day: "2026-11-19", model_name },
      count: events.filter((each) => each.model_name === model_name).length,
    }));
    const payload = payloadOf(of, { days, events } as never);
    for (const space of [undefined, 1]) {
      const report = await parsed(signReport(JSON.stringify(payload, null, space), of));
      expect(report.events.map((each) => each.model_name)).toEqual(
        events.map((each) => each.model_name ?? ""),
      );
      expect(report.events[7]?.metadata).toEqual({ list: [1, { of: "]" }] });
    }
  });

  test("refuses a list of events that is no JSON, wherever it is cut", async () => {
    const list = Array.from({ length: 1_000 }, (_, index) =>
      JSON.stringify({ ...EVENT, idempotency_key: `${index}` }),
    );
    const days = [{ day: "2026-11-19", count: 1_000 }];
    const signList = (inner: string, more = "") =>
      signReport(JSON.stringify(payloadOf(of, { days })).replace(/\}$/, `,"events":[${inner}]${more}}`), of);
    const whole = list.join(",");
    expect(await refusal(signList(whole))).toBe("accepted");
    const notJson = "its contents are not a JSON object";
    for (const inner of [
      `${whole},`,
      `,${whole}`,
      whole.replace("},{", "},,{"),
      `${whole}}`,
      `${whole}]`,
      `${whole}"`,
      `[${list.slice(0, 400).join(",")}`,
    ])
      expect(await refusal(signList(inner))).toBe(notJson);
    for (const at of [499, 500, 501])
      expect(await refusal(signList(list.with(at, "").join(",")))).toBe(notJson);
    // The last one of two counts, as JSON says.
    expect(await refusal(signList(whole, ',"events":[]'))).toBe("days must be what the events add up to");
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

  test("refuses signed events, rows and contents that are too large or too deep, before they are parsed", async () => {
    const days = [{ day: "2026-11-19", count: 1 }];
    const withEvents = (events: string) =>
      JSON.stringify(payloadOf(of, { days, events: [] })).replace('"events":[]', `"events":[${events}]`);
    const refusalOfText = (payload: string) => refusal(signReport(payload, of));
    const eventOf = (metadata: string) => `${JSON.stringify(EVENT).slice(0, -1)},"metadata":${metadata}}`;
    const levels = (many: number) => `${"[".repeat(many)}${"]".repeat(many)}`;
    const large = "events[1] has more than 65536 characters";
    for (const value of [`"${"x".repeat(70_000)}"`, levels(500_000), `[${"1,".repeat(1_000_000)}1]`])
      expect(
        await refusalOfText(withEvents(`${JSON.stringify(EVENT)},${eventOf(`{"a":${value}}`)}`)),
      ).toContain(large);
    expect(await refusalOfText(withEvents(eventOf(`{"a":${levels(20_000)}}`)))).toContain(
      "metadata must have at most 32 levels",
    );
    const more = (name: string, value: string) =>
      JSON.stringify(payloadOf(of)).replace(/\}$/, `,"${name}":${value}}`);
    expect(await refusalOfText(more("events", `{"a":${levels(1_000_000)}}`))).toContain(
      "more levels than a report",
    );
    expect(await refusalOfText(more("note", `"${"x".repeat(8 * 1024 * 1024)}"`))).toContain(
      "more than 8388608 characters beside its list of events",
    );
  });

  test("lets other work run after each part of a payload, also of one with long texts or large events", async () => {
    const MIB = 1024 * 1024;
    const long = JSON.stringify({ clients: Array.from({ length: 63 }, () => "x".repeat(100_000)) });
    // Once to decode it, once to find the events, once to count its levels.
    expect(await countTurns(long)).toBeGreaterThanOrEqual(3 * Math.floor(long.length / MIB) - 3);
    const event = { ...EVENT, metadata: { text: "x".repeat(60_000) } };
    const large = JSON.stringify({ events: Array.from({ length: 120 }, () => event) });
    expect(await countTurns(large)).toBeGreaterThanOrEqual(3 * Math.floor(large.length / MIB) - 3);
  });

  test("explains a file of the largest size that is no report at once", async () => {
    const beganMs = performance.now();
    const most = 32 * 1024 * 1024;
    expect(await refusal(`x${"\n".repeat(most - 2)}y`)).toContain("no report of use");
    expect(await refusal("a.".repeat(most / 2))).toContain("no report of use");
    expect(await refusal("eyJ.".repeat(most / 4))).toContain("the file has many reports");
    // Splitting them took ten seconds and a gigabyte.
    expect(performance.now() - beganMs).toBeLessThan(5_000);
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
