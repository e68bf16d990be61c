/**
 * The client in Python: its pure functions decide as the test vectors say. The other tests are about what the tests of
 * both modules as programs leave out.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import ofLicenses from "../../src/cli/guide/sdk/license_vectors.json" with { type: "json" };
import vectors from "../../src/cli/guide/sdk/vectors.json" with { type: "json" };
import { until } from "../support/until.ts";
import { useFolder } from "../support/use_folder.ts";
import { WHY } from "./license_reasons.ts";
import {
  countEvents,
  type FakeAnswer,
  type FakeService,
  licenseAnswer,
  listOf,
  modelOf,
  PINNED_KEYS,
  refusedWith,
  serveFile,
  signLicense,
  startFakeService,
  VALID,
} from "./sdk_fake_service.ts";
import { createInstaller, type Settings } from "./sdk_languages.ts";
import { hasCryptography, python, runProgram } from "./sdk_python.ts";

// A busy machine starts an interpreter in seconds, and the client waits for real.
setDefaultTimeout(120_000);

const KEY = `svc_live_${"0123456789abcdef".repeat(3)}`;
const folder = useFolder();
const install = createInstaller(folder, KEY);

const VECTORS = `
from claviger_client import *
vectors = json.load(sys.stdin)
def to_answer(fields):
    return Answer(fields["status"], fields["headers"], fields.get("body", {})) if fields else None
def validate(saved, seen, answer, sent_at, now, **_):
    kept, seen = keep_validation(Saved(**saved) if saved else None, seen, to_answer(answer), sent_at, now)
    fresh = {"is_fresh": is_fresh(kept, seen, now), "may_use": may_use(kept, seen, now)}
    return {"saved": kept._asdict() if kept else None, "seen": seen, **fresh}
def settle(events, answer, failures, **_):
    settled = settle_events(events, to_answer(answer), failures)._asdict()
    return {**settled, "refused": [{"index": index, "code": code} for index, code, _ in settled["refused"]]}
def choose(have_bytes, etag, size_bytes, answer, failures, **_):
    do, wait_seconds = decide_download(have_bytes, etag, size_bytes, to_answer(answer), failures)
    return {"do": do, "wait_seconds": wait_seconds}
def verdict(license, name, why, features=None, entitlements=None, **terms):
    try:
        claims = check(license, vectors["licenses"]["keys"]["keys"], **terms)
    except Refused as refused:
        return {"why": str(refused)}
    now = terms["now"]
    return {"why": None, "features": features_at(claims, now), "entitlements": entitlements_of(claims)}
print(json.dumps({
    "validations": [validate(**case) for case in vectors["validations"]],
    "batches": [settle(**case) for case in vectors["batches"]],
    "downloads": [choose(**case) for case in vectors["downloads"]],
    "licenses": [verdict(**case) for case in vectors["licenses"]["cases"]],
}))`;

describe.skipIf(python === undefined)("the pure functions of the client: Python", () => {
  const input = JSON.stringify({ ...vectors, licenses: ofLicenses });
  const results = python === undefined ? undefined : runProgram(VECTORS, input);

  test.each(["validations", "batches", "downloads"] as const)(
    "decide as the vectors say: %s",
    async (section) => {
      const found = (await results)[section];
      expect(found.length).toBe(vectors[section].length);
      for (const [index, { name, expect: expected }] of vectors[section].entries())
        expect({ name, ...found[index] }).toEqual({ name, ...expected });
    },
  );

  test.skipIf(!hasCryptography)("decide as the vectors say: licenses", async () => {
    const { licenses } = await results;
    expect(licenses.length).toBe(ofLicenses.cases.length);
    for (const [index, { name, why, features, entitlements }] of ofLicenses.cases.entries()) {
      const expected = why === null ? { why, features, entitlements } : { why: WHY[why] };
      expect({ name, ...licenses[index] }).toEqual({ name, ...expected });
    }
  });
});

/** Installs the client in Python for a service. */
function createClient({ url }: FakeService, more: Settings = {}) {
  if (python === undefined) throw new Error("python3 is missing");
  const { module } = python;
  const { stateFile, runArguments, start, readState } = install(python, url, more);
  return { stateFile, readState, start, run: (...args: string[]) => runArguments([module, ...args]) };
}

const inSeconds = (seconds: number) =>
  new Date(Date.now() + seconds * 1_000).toISOString().replace(/\.\d+/, "");

/** The last line of the log. */
const lastLine = async (running: Promise<{ readonly lines: readonly string[] }>) =>
  (await running).lines.at(-1);

describe.skipIf(python === undefined)("answers: Python", () => {
  test("a kept answer is for one key alone; an answer that is too long, or a damaged file, is as good as none", async () => {
    using service = await startFakeService();
    const client = createClient(service);
    service.on("/v1/auth/validate", () => ({ body: { ...VALID, more: "x".repeat(65_536) } }));
    expect(await client.run("validate")).toMatchObject({ status: 1, lines: ["validate: no answer (200)"] });
    service.on("/v1/auth/validate", () => ({ body: VALID }));
    expect((await client.run("validate")).status).toBe(0);
    const other = createClient(service, {
      LICENSE_STATE: client.stateFile,
      LICENSE_KEY: KEY.replace("live", "test"),
    });
    expect((await other.run("features")).status).toBe(1);
    const damaged = [
      "",
      "[]",
      "\u0000",
      '{"owner":',
      "[".repeat(60_000),
      '{"until":1e999}',
      '{"until":true}',
    ];
    for (const text of damaged) {
      for (const end of ["", ".validated", ".license", ".license.terms"])
        writeFileSync(client.stateFile + end, text);
      const out = expect.stringMatching(/^may not work\n/);
      const lines = ["refused: this machine has no place: activate it"];
      expect(await client.run("status")).toMatchObject({ status: 1, out, lines });
    }
    const until = Math.floor(Date.now() / 1_000) + 600;
    writeFileSync(client.stateFile, JSON.stringify({ ...client.readState(), until, more: { of: "later" } }));
    expect(await client.run("status")).toMatchObject({ status: 0 });
  });

  test("says why there is no answer, and reads no body without an end", async () => {
    using service = await startFakeService();
    const urls = [
      ...["http://127.0.0.1:1", "http://nobody.invalid"],
      ...[service.url, service.url.replace("http", "https")],
    ];
    const text = `
from claviger_client import Client, Part, read_body
causes = []
for url in json.load(sys.stdin):
    client = Client(url, "${KEY}", ${JSON.stringify(join(folder, "causes.json"))})
    causes.append([client.validate(), client.cause])
class Endless:
    headers = {}
    def read1(self, size):
        return b"x" * size
part = Part(${JSON.stringify(join(folder, "endless.part"))})
print(json.dumps([*causes, len(read_body(Endless(), 65_536)), part.receive(Endless(), 1_000_000), part.size() <= 1_000_000]))`;
    expect(await runProgram(text, JSON.stringify(urls))).toEqual([
      [null, "connection refused"],
      [null, "name not found"],
      [null, "connection closed"],
      [null, expect.stringMatching(/^TLS: [a-z ]+(: is the service without TLS\?)?$/)],
      ...[0, "it is larger than the list says", true],
    ]);
  });

  test("without cryptography, the check of a license says what to install", async () => {
    const refused = await runProgram(`
sys.modules["cryptography"] = None
from claviger_client import Refused, verify
try:
    verify("a.b.c", [])
except Refused as error:
    print(json.dumps(str(error)))`);
    expect(refused).toBe("the check of a license needs the package cryptography: install it");
  });
});

describe.skipIf(!hasCryptography)("signed licenses: Python", () => {
  test("a license that is not for this key or product replaces nothing, and a new one corrects a clock that was ahead", async () => {
    using service = await startFakeService();
    const keys = join(folder, "keys.json");
    writeFileSync(keys, JSON.stringify(PINNED_KEYS));
    const client = createClient(service, { LICENSE_KEYS: keys, LICENSE_AUDIENCE: "svc" });
    service.on("/v1/auth/license", () => licenseAnswer(signLicense()));
    expect((await client.run("borrow")).status).toBe(0);
    for (const [claims, why] of [
      [{ key_id: "key_2" }, "the license is for another key"],
      [{ aud: "other" }, "LICENSE_AUDIENCE is svc, and the license is for other"],
      [{ exp: "never" }, "the license is not genuine"],
    ] as const) {
      service.on("/v1/auth/license", () => licenseAnswer(signLicense(claims)));
      expect(await lastLine(client.run("borrow"))).toBe(`refused: ${why}`);
      expect((await client.run("status")).status).toBe(0);
    }
    const seen = Math.floor(Date.now() / 1_000) + 3_600;
    writeFileSync(client.stateFile, JSON.stringify({ ...client.readState(), seen }));
    expect((await client.run("status")).status).toBe(1);
    service.on("/v1/auth/license", () => licenseAnswer(signLicense()));
    expect((await client.run("borrow", "3")).status).toBe(0);
    expect((await client.run("status")).status).toBe(0);
    // The license counts no machines, so no place is taken.
    service.on("/v1/machines/release", () => ({ body: { released: true, machine_id: null } }));
    expect(await client.run("give-back")).toMatchObject({ status: 0, out: "" });
    expect((await client.run("status")).status).toBe(1);
  });

  test("`run` also renews a borrowed license that has ended meanwhile", async () => {
    using service = await startFakeService();
    const keys = join(folder, "keys.json");
    writeFileSync(keys, JSON.stringify(PINNED_KEYS));
    const client = createClient(service, { LICENSE_KEYS: keys, LICENSE_AUDIENCE: "svc" });
    service.on("/v1/auth/license", () => licenseAnswer(signLicense()));
    expect((await client.run("borrow", "3")).status).toBe(0);
    const now = Math.floor(Date.now() / 1_000);
    const ended = signLicense({ iat: now - 600, nbf: now - 600, refresh_after: now - 300, exp: now - 1 });
    writeFileSync(`${client.stateFile}.license`, ended);
    expect((await client.run("status")).status).toBe(1);
    service.on("/v1/machines/activate", () => ({ body: { machine_id: null, expires_at: null } }));
    const { client: running, reading } = client.start("run");
    await until(() => service.to("/v1/auth/license").length === 2, { limitMs: 60_000 });
    expect(service.to("/v1/auth/license").at(-1)?.fields.days).toBe(3);
    running.kill();
    await reading;
  });
});

describe.skipIf(python === undefined)("models: Python", () => {
  const bytes = new Uint8Array(300_000).map((_, index) => (index * 7) % 256);
  const target = () => mkdtempSync(join(folder, "models-"));

  test("a process that was killed leaves a part, with which the next one goes on", async () => {
    using service = await startFakeService();
    service.on("/v1/models/list", () => listOf(modelOf("speller", service.url, bytes)));
    service.on("/file/speller.onnx", serveFile(bytes, '"tag"'));
    const home = target();
    const path = join(home, "speller-1.0.0.onnx");
    writeFileSync(`${path}.part`, bytes.subarray(0, 1_000));
    writeFileSync(`${path}.part.etag`, '"tag"');
    expect((await createClient(service).run("download", "speller", home)).status).toBe(0);
    expect(service.to("/file/speller.onnx").map(({ headers }) => headers.range)).toEqual(["bytes=1000-"]);
    expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);
    expect(readdirSync(home).toSorted()).toEqual(["speller-1.0.0.onnx", "speller-1.0.0.onnx.checksum"]);
  });

  test("goes to no address that is not of the web, and takes no name that leads out of the folder", async () => {
    using service = await startFakeService();
    using other = await startFakeService();
    const client = createClient(service);
    const home = target();
    for (const [name, more, why] of [
      ["..", {}, "the service sent a name that is no file name: ..-1.0.0.onnx"],
      ["/speller", {}, "the service sent a name that is no file name: /speller-1.0.0.onnx"],
      ["speller", { version: "../1" }, "the service sent a name that is no file name: speller-../1.onnx"],
      [
        ...(["speller", { download_url: "file:///etc/hostname" }] as const),
        "the file of speller cannot be fetched: its link has neither https:// nor http://",
      ],
      [
        "speller",
        { size_mb: 0.000001 },
        "the file of speller cannot be fetched: it is larger than the list says",
      ],
      ["speller", {}, "the file of speller cannot be fetched: status 302"],
    ] as const) {
      service.on("/v1/models/list", () => listOf(modelOf(name, service.url, bytes, more)));
      const isBig = "size_mb" in more;
      const answer: FakeAnswer = isBig
        ? { body: new Uint8Array(1_200_000) }
        : { status: 302, headers: { Location: "ftp://127.0.0.1/speller" } };
      service.on("/file/speller.onnx", () => answer);
      expect(await lastLine(client.run("download", name, home))).toBe(`refused: ${why}`);
      expect(readdirSync(home)).toEqual([]);
    }
    // The request for the list has the key.
    service.on("/v1/models/list", () => ({
      status: 307,
      headers: { Location: `${other.url}/v1/models/list` },
    }));
    expect((await client.run("models")).status).toBe(1);
    expect(other.requests).toEqual([]);
  });

  test("gives up on a server that knows no ranges and always breaks off", async () => {
    using service = await startFakeService();
    service.on("/v1/models/list", () => listOf(modelOf("speller", service.url, bytes)));
    service.on("/file/speller.onnx", () => ({ body: bytes, cutAfter: 1_000 }));
    expect(await lastLine(createClient(service).run("download", "speller", target()))).toBe(
      "refused: the file of speller cannot be fetched: connection closed",
    );
    expect(service.to("/file/speller.onnx").length).toBe(5);
  });
});

interface Event {
  readonly event_type: string;
}

describe.skipIf(python === undefined)("usage events: Python", () => {
  const BATCH = "/v1/analytics/batch";
  const readQueue = (stateFile: string): Event[] =>
    readFileSync(`${stateFile}.events`, "utf8")
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line));
  const eventsOf = (service: FakeService): string[][] =>
    service.to(BATCH).map(({ fields }) => fields.events.map(({ event_type }: Event) => event_type));
  const write = (stateFile: string, ...events: readonly object[]) =>
    writeFileSync(`${stateFile}.events`, events.map((event) => `${JSON.stringify(event)}\n`).join(""));
  const event = (idempotency_key: string, more: object = {}) => ({
    ...{ idempotency_key, occurred_at: inSeconds(-60), event_type: idempotency_key },
    ...more,
  });

  test("what is refused for good leaves the queue and is told, and a time of a clock that was ahead is corrected", async () => {
    using service = await startFakeService();
    service.on(
      BATCH,
      countEvents(({ event_type, occurred_at }) => {
        if (event_type === "full") return "QUOTA_EXCEEDED";
        const isAhead = Date.parse(occurred_at) > Date.now() + 300_000;
        return isAhead || event_type === "wrong" ? "INVALID_REQUEST" : undefined;
      }),
    );
    const client = createClient(service);
    write(
      client.stateFile,
      ...[event("old", { occurred_at: inSeconds(-7 * 86_400 - 60) }), event("full"), event("good")],
      ...[event("ahead", { occurred_at: inSeconds(7_200) }), event("wrong")],
    );
    const { status, out, lines } = await client.run("send");
    expect({ status, out }).toEqual({ status: 0, out: "accepted 2\nrefused 3\nwaiting 0\n" });
    expect(eventsOf(service)).toEqual([["full", "good", "ahead", "wrong"], ["ahead"]]);
    expect(lines.filter((line) => line.startsWith("event "))).toEqual([
      "event old is refused: EVENT_TOO_OLD the event is older than 7 days",
      "event full is refused: QUOTA_EXCEEDED The sentence of QUOTA_EXCEEDED",
      "event wrong is refused: INVALID_REQUEST The sentence of INVALID_REQUEST",
    ]);
  });

  test("batches have at most 1,000 events and 1,000,000 bytes, and half as many after 413", async () => {
    using service = await startFakeService();
    service.on(BATCH, countEvents());
    const client = createClient(service);
    write(client.stateFile, ...Array.from({ length: 2_100 }, (_, index) => event(`${index}`)));
    expect((await client.run("send")).out).toBe("accepted 2100\nrefused 0\nwaiting 0\n");
    expect(eventsOf(service).map(({ length }) => length)).toEqual([1_000, 1_000, 100]);
    expect(eventsOf(service).flat()).toEqual(Array.from({ length: 2_100 }, (_, index) => `${index}`));
    service.requests.length = 0;
    write(
      client.stateFile,
      ...Array.from({ length: 40 }, (_, i) => event(`${i}`, { metadata: "x".repeat(60_000) })),
    );
    expect((await client.run("send")).out).toBe("accepted 40\nrefused 0\nwaiting 0\n");
    expect(eventsOf(service).map(({ length }) => length)).toEqual([16, 16, 8]);
    for (const { headers } of service.requests)
      expect(Number(headers["content-length"])).toBeWithin(1, 1_000_001);

    service.requests.length = 0;
    service.on(BATCH, (request) =>
      request.fields.events.some(({ event_type }: Event) => event_type === "2")
        ? refusedWith(413, "PAYLOAD_TOO_LARGE")
        : countEvents()(request),
    );
    write(client.stateFile, ...Array.from({ length: 4 }, (_, index) => event(`${index}`)));
    expect((await client.run("send")).out).toBe("accepted 3\nrefused 1\nwaiting 0\n");
    expect(eventsOf(service)).toEqual([["0", "1", "2", "3"], ["0", "1"], ["2", "3"], ["2"], ["3"]]);
  });

  test("batches are smaller for a service that takes fewer events at once, or has no room for all of them now", async () => {
    using service = await startFakeService();
    const count = countEvents();
    service.on(BATCH, (request) => {
      if (service.requests.length === 2)
        return refusedWith(429, "RATE_LIMIT_EXCEEDED", { "Retry-After": "1" });
      if (service.requests.length === 3)
        return refusedWith(429, "RATE_LIMIT_EXCEEDED", {
          "Retry-After": "1",
          "X-RateLimit-Remaining": "200",
        });
      return request.fields.events.length > 500 ? refusedWith(400, "INVALID_REQUEST") : count(request);
    });
    const client = createClient(service);
    write(client.stateFile, ...Array.from({ length: 1_000 }, (_, index) => event(`${index}`)));
    expect((await client.run("send")).out).toBe("accepted 1000\nrefused 0\nwaiting 0\n");
    expect(eventsOf(service).map(({ length }) => length)).toEqual([1_000, 500, 500, 200, 500, 300]);
    service.on(BATCH, () => refusedWith(400, "INVALID_REQUEST"));
    write(client.stateFile, event("wrong"), event("good"));
    const { out, lines } = await client.run("send");
    expect({ out, line: lines.at(-1) }).toEqual({
      out: "accepted 0\nrefused 0\nwaiting 2\n",
      line: expect.stringContaining(
        "; 0 accepted, 0 refused, 2 waiting; stop: The sentence of INVALID_REQUEST",
      ),
    });
  });

  test("damaged lines cost no other event, and do not stop the queue", async () => {
    using service = await startFakeService();
    service.on(BATCH, countEvents());
    const client = createClient(service);
    const lines = [event("1"), event("2")].map((each) => JSON.stringify(each));
    writeFileSync(
      `${client.stateFile}.events`,
      `${lines[0]}\n\n[1]\n{"idempotency_key":"3","n":NaN}\n${lines[1]?.slice(0, 40)}`,
    );
    expect((await client.run("log", "error")).status).toBe(0);
    expect((await client.run("send")).out).toBe("accepted 2\nrefused 0\nwaiting 0\n");
    expect(eventsOf(service)).toEqual([["1", "error"]]);
    writeFileSync(`${client.stateFile}.events`, new Uint8Array(3_000_000));
    expect((await client.run("send")).out).toBe("accepted 0\nrefused 0\nwaiting 0\n");
  });

  test("many threads put whole lines into the queue, and an error says when it is full", async () => {
    const stateFile = join(folder, "threads.json");
    const answer = await runProgram(`
import threading
from claviger_client import Client, QueueFull
client = Client("http://127.0.0.1:1", "${KEY}", ${JSON.stringify(stateFile)})
def work():
    for index in range(200):
        client.log_event("inference", duration_ms=index, success=True, metadata={"text": "é" * index})
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
def refused(**fields):
    try:
        client.log_event("inference", **fields)
    except (QueueFull, ValueError) as error:
        return str(error)
path = client.events.path
with open(path, "rb") as file:
    events = [json.loads(line) for line in file]
answers = [refused(metadata={"text": "x" * 16_384}), refused(duration_ms=float("nan")), refused(occurred_at="today")]
with open(path, "ab") as file:
    file.write(b"{}\\n" * (100_000 - 1_600))
answers.append(refused())
with open(path, "wb") as file:
    file.truncate(64 * 1_048_576 - 10)
answers.append(refused())
print(json.dumps([len(events), len({event["idempotency_key"] for event in events}), answers]))`);
    expect(answer).toEqual([
      ...[1_600, 1_600],
      [
        expect.stringMatching(/^the event cannot be logged: metadata must be an object of /),
        "the event cannot be logged: duration_ms must be a number that is not negative",
        "the event cannot be logged: occurred_at must be a time with its zone",
        `100000 events wait in ${stateFile}.events: send them, or delete the file`,
        expect.stringMatching(/: send them, or delete the file$/),
      ],
    ]);
  });

  test("no line of another process is lost while the sent ones leave the file", async () => {
    const path = join(folder, "shared.events");
    const writer = `
from claviger_client import EventQueue
queue = EventQueue(${JSON.stringify(path)})
for index in range(1_500):
    queue.add({"idempotency_key": f"{sys.argv[0]}{index}"})
print(1)`;
    const reader = `
import time
from claviger_client import EventQueue
queue, keys, until = EventQueue(${JSON.stringify(path)}), set(), time.monotonic() + 60
while len(keys) < 3_000 and time.monotonic() < until:
    batch = queue.take(10)
    keys.update(event["idempotency_key"] for event in batch.events)
    if batch.events:
        queue.replace(batch.text, batch.events[:1])
        queue.replace(batch.text, [])
print(len(keys))`;
    const named = (name: string) => runProgram(`sys.argv = ["${name}"]${writer.replace("1_500", "1500")}`);
    const [, , read] = await Promise.all([named("a"), named("b"), runProgram(reader)]);
    expect(read).toBe(3_000);
  });

  test("`run` sends events beside the heartbeats, also those that another process adds, and loses none to `send`", async () => {
    using service = await startFakeService();
    service.on(BATCH, countEvents());
    service.on("/v1/machines/activate", () => ({ body: { machine_id: null, expires_at: null } }));
    const client = createClient(service);
    const { client: running, lines, reading } = client.start("run");
    await until(() => lines.some((line) => line.startsWith("activate: 200")), { limitMs: 60_000 });
    const log = async (name: string) => expect((await client.run("log", "inference", name)).status).toBe(0);
    await log("first");
    await until(() => lines.some((line) => line.startsWith("events: 200; 1 accepted")), { limitMs: 60_000 });
    for (const name of ["second", "third"]) await log(name);
    await Promise.all([client.run("send"), client.run("send"), log("fourth")]);
    await until(() => readQueue(client.stateFile).length === 0, { limitMs: 60_000 });
    running.kill();
    await reading;
    const names = service
      .to(BATCH)
      .flatMap(({ fields }) => fields.events.map((each: { model_name: string }) => each.model_name));
    expect(new Set(names)).toEqual(new Set(["first", "second", "third", "fourth"]));
  });
});
