/**
 * The client in Python in long use: shared limits, processes that run for weeks, months that are used up, machines that lose
 * their network or their key, and settings that are wrong. Answers and clock are the test's own, so no test waits.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { useFolder } from "../support/use_folder.ts";
import { PINNED_KEYS, refusedWith, signLicense, startFakeService, VALID } from "./sdk_fake_service.ts";
import { createInstaller } from "./sdk_languages.ts";
import { hasCryptography, python, runProgram } from "./sdk_python.ts";

// A busy machine starts an interpreter in seconds.
setDefaultTimeout(120_000);

const KEY = `svc_live_${"0123456789abcdef".repeat(3)}`;
/** What a client says that has no service to ask, and no keys to check a license. */
const NOT_PINNED =
  "no keys are pinned: give the client `keys` and `audience` (for commands LICENSE_KEYS and LICENSE_AUDIENCE)";
const folder = useFolder();
const install = createInstaller(folder, KEY);
const newFolder = () => mkdtempSync(join(folder, "home-"));

/**
 * `create(path)` makes a client; `script(client, request=[answer, …])` answers its requests, the last answer again and again,
 * and None is no answer. Waits end at once: `naps` has them, and the clock goes on.
 */
const harness = () => `
import datetime, os, threading, time
import claviger_client
from claviger_client import *
home, clock, naps = ${JSON.stringify(newFolder())}, [float(int(time.time()))], []
given = json.load(sys.stdin)
claviger_client.time.time = lambda: clock[0]
def nap(seconds, stopped):
    naps.append(seconds)
    clock[0] += seconds
claviger_client.pause = nap
def create(name="state", **more):
    lines = []
    client = Client(
        "http://127.0.0.1:1", "${KEY}", os.path.join(home, name), fingerprint="workstation-7", log=lines.append, **more
    )
    client.lines = lines
    return client
def script(client, **answers):
    sent = []
    def send(request, fields, limit=0):
        sent.append(request)
        left = answers.get(request, [None])
        answer = left.pop(0) if len(left) > 1 else left[0]
        answer = answer() if callable(answer) else answer
        return (Answer(*answer), "") if answer is not None else (None, "connection refused")
    client.send = send
    return sent
def refused(call, *args, **more):
    try:
        return [call(*args, **more)]
    except (Refused, ValueError) as error:
        return str(error)
def refusal(status, code, **headers):
    return Answer(status, headers, {"error": f"The sentence of {code}", "code": code})
def seat(seconds):
    return lambda: Answer(200, {}, {"machine_id": "mch_1", "expires_at": render(int(clock[0]) + seconds)})
valid = Answer(200, {}, {**given["valid"], "expires_at": "2099-01-01T00:00:00Z"})
`;
const run = (text: string, more: object = {}) =>
  runProgram(harness() + text, JSON.stringify({ valid: VALID, keys: PINNED_KEYS, ...more }));

describe.skipIf(python === undefined)("usage events in long use: Python", () => {
  test("thirty machines of one key send all their events in the fewest batches, although ten a minute are allowed", async () => {
    const result = await run(`
changed, ends, running = threading.Condition(), {}, [30]
def advance():
    if running[0] > 0 and len(ends) == running[0]:
        clock[0] = min(ends.values())
        for name in [name for name, end in ends.items() if end <= clock[0]]:
            del ends[name]
        changed.notify_all()
def nap(seconds, stopped):
    with changed:
        end = clock[0] + seconds
        ends[threading.get_ident()] = end
        advance()
        while clock[0] < end:
            changed.wait()
claviger_client.pause = nap
batches, keys, taken = [], set(), threading.Lock()
def send(request, body, limit):
    events = json.loads(body)["events"]
    with taken:
        recent = [at for at, _ in batches if at > clock[0] - 60]
        if len(recent) >= 10:
            wait = str(int(recent[0] + 60 - clock[0]) + 1)
            return refusal(429, "RATE_LIMIT_EXCEEDED", **{"retry-after": wait, "x-ratelimit-remaining": "0"}), ""
        batches.append((clock[0], len(events)))
        keys.update(event["idempotency_key"] for event in events)
    return Answer(200, {}, {"results": [{"logged": True}] * len(events)}), ""
began = clock[0]
def work(index):
    client = create(f"state{index}")
    client.send = send
    at = render_exactly(began)
    with open(client.events.path, "wb") as file:
        for number in range(1_200):
            file.write(to_event_line({"idempotency_key": f"{index}-{number}", "occurred_at": at, "event_type": "error"}))
    while client.send_events().waiting > 0:
        nap(BROKEN_SECONDS, None)
    with changed:
        running[0] -= 1
        advance()
threads = [threading.Thread(target=work, args=[index]) for index in range(30)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps([len(batches), len(keys), sorted({size for _, size in batches}), clock[0] - began < 1_200]))`);
    expect(result).toEqual([60, 36_000, [200, 1_000], true]);
  });

  test("send_events begins no request and no wait after its time", async () => {
    const result = await run(`
client = create()
sent = script(client, events=[None])
monotonic = [0.0]
claviger_client.time.monotonic = lambda: monotonic[0]
def nap(seconds, stopped):
    naps.append(seconds)
    monotonic[0] += seconds
claviger_client.pause = nap
client.log_event("inference")
found = []
for timeout in (0, 2, 4, None):
    sent.clear(), naps.clear()
    found.append([client.send_events(timeout).waiting, len(sent), list(naps)])
print(json.dumps(found))`);
    expect(result).toEqual([
      [1, 0, []],
      [1, 2, [1]],
      [1, 3, [1, 2]],
      [1, 4, [1, 2, 4]],
    ]);
  });

  test("the log says that a batch follows, and one large event makes no later batch small", async () => {
    const result = await run(`
client, sizes = create(), []
def send(request, body, limit):
    events = json.loads(body)["events"]
    sizes.append(len(events))
    if any(event.get("model_name") == "large" for event in events):
        return refusal(413, "PAYLOAD_TOO_LARGE"), ""
    return Answer(200, {}, {"results": [{"logged": True}] * len(events)}), ""
client.send = send
for index in range(8):
    client.log_event("inference", model_name="large" if index == 1 else "small")
client.send_events()
print(json.dumps([sizes, [line.rpartition("; ")[2] for line in client.lines]]))`);
    expect(result).toEqual([
      [8, 4, 2, 1, 1, 6],
      ["halve", "halve", "halve", "next batch", "next batch", "done"],
    ]);
  });

  test("log_event refuses what the service would refuse, and takes a time with its zone", async () => {
    const result = await run(`
client = create()
zone = datetime.timezone(datetime.timedelta(hours=2))
at = datetime.datetime(2026, 10, 31, 23, 59, 58, 250_999)
for time in (at.replace(tzinfo=zone), at.replace(tzinfo=datetime.timezone.utc), "2026-10-31T23:59:58-01:30", "2026-10-31T23:59:58.7Z"):
    client.log_event("inference", occurred_at=time)
with open(client.events.path) as file:
    times = [json.loads(line)["occurred_at"] for line in file]
wrong = [
    refused(client.log_event, "shutdown"), refused(client.log_event, "inference", inference_type="slow"),
    refused(client.log_event, "inference", occurred_at=at), refused(client.log_event, "inference", occurred_at="2026-10-31"),
]
print(json.dumps([times, wrong]))`);
    expect(result).toEqual([
      [
        ...["2026-10-31T21:59:58.250Z", "2026-10-31T23:59:58.250Z"],
        ...["2026-11-01T01:29:58.000Z", "2026-10-31T23:59:58.700Z"],
      ],
      [
        "the event cannot be logged: event_type must be one of inference, model_load, error",
        "the event cannot be logged: inference_type must be batch or streaming",
        "the event cannot be logged: occurred_at must be a time with its zone",
        "the event cannot be logged: occurred_at must be a time with its zone",
      ],
    ]);
  });
});

describe.skipIf(python === undefined)("places and answers in long use: Python", () => {
  test("`run` keeps the features for weeks, and asks validate once an hour at most", async () => {
    const result = await run(`
client, stopped = create(), threading.Event()
sent = script(client, validate=[valid], activate=[seat(300)], heartbeat=[seat(300)])
def until(end):
    def nap(seconds, stopped):
        clock[0] += seconds
        if clock[0] >= end:
            stopped.set()
    claviger_client.pause = nap
    stopped.clear()
    client.run(stopped)
until(clock[0] + 7_200)
without = sent.count("validate")
client.validate()
sent.clear()
until(clock[0] + 9 * 86_400)
found = [without, sent.count("validate"), client.features()]
script(client, validate=[None], heartbeat=[seat(300)])
asked = script(client, validate=[None], heartbeat=[seat(300)])
until(clock[0] + 36_000)
print(json.dumps([*found, 8 <= asked.count("validate") <= 10]))`);
    expect(result[0]).toBe(0);
    expect(result[1]).toBeWithin(9 * 23, 9 * 24 + 1);
    expect(result.slice(2)).toEqual([["streaming", "training"], true]);
  });

  test("when the month is used up, validate keeps the answer of refresh, and returns the refusal", async () => {
    const result = await run(`
client, found = create(), []
used_up = refusal(429, "QUOTA_EXCEEDED")
for answer in (valid, None, refusal(503, "SERVICE_UNAVAILABLE"), refusal(401, "INVALID_KEY")):
    sent = script(client, validate=[used_up], refresh=[answer])
    found.append([client.validate()["code"], client.features(), sent])
script(client, validate=[refusal(429, "RATE_LIMIT_EXCEEDED")])
client.validate()
print(json.dumps([found, client.lines]))`);
    const sent = ["validate", "refresh"];
    const features = ["streaming", "training"];
    expect(result[0]).toEqual([
      ["QUOTA_EXCEEDED", features, sent],
      ["QUOTA_EXCEEDED", features, sent],
      ["QUOTA_EXCEEDED", features, sent],
      ["QUOTA_EXCEEDED", [], sent],
    ]);
    expect(result[1].slice(0, 4)).toEqual([
      ...["validate: 429 QUOTA_EXCEEDED", "refresh: 200"],
      ...["validate: 429 QUOTA_EXCEEDED", "refresh: no answer: connection refused"],
    ]);
    expect(result[1].at(-1)).toBe("validate: 429 RATE_LIMIT_EXCEEDED");
  });

  test("activate and release wait as after the first failure, whatever failed before", async () => {
    const result = await run(
      `
client, found = create(), []
for call in (client.activate, client.release, client.activate):
    naps.clear()
    found.append([call(), list(naps), client.gave_up])
print(json.dumps(found))`.replace(
        "client, found = create(), []",
        "client, found = create(), []\nscript(client)",
      ),
    );
    expect(result).toEqual([
      [false, [1, 2, 4], "connection refused"],
      [false, [1, 2, 4], "connection refused"],
      [false, [1, 2, 4], "connection refused"],
    ]);
  });

  test("`run` begins with the wait of the activation before it", async () => {
    const result = await run(`
client, stopped, found = create(), threading.Event(), []
sent = script(client, activate=[seat(300)], heartbeat=[seat(300)])
def nap(seconds, stopped):
    found.append([len(sent), seconds])
    clock[0] += seconds
    if len(found) == 2:
        stopped.set()
claviger_client.pause = nap
client.activate()
clock[0] += 10
client.run(stopped)
print(json.dumps([found, sent]))`);
    expect(result).toEqual([
      [
        [1, 90],
        [2, 100],
      ],
      ["activate", "heartbeat"],
    ]);
  });

  test("why() says for people why the program may not work", async () => {
    const result = await run(`
client, found = create(), []
def look():
    why = client.why()
    found.append(why and [str(why), why.code])
look()
for answer in (
    refusal(409, "MACHINE_LIMIT_REACHED"), refusal(401, "INVALID_KEY"), refusal(401, "KEY_EXPIRED"), refusal(403, "FORBIDDEN"),
    seat(300),
):
    script(client, activate=[answer])
    client.activate()
    look()
clock[0] += 400
for answer in (None, Answer(200, {}, {}), refusal(503, "SERVICE_UNAVAILABLE")):
    script(client, heartbeat=[answer])
    client.step("heartbeat")
    look()
clock[0] -= 1_000
look()
clock[0] += 1_000
script(client, release=[Answer(200, {}, {"released": True})])
client.release()
look()
print(json.dumps(found))`);
    const newKey = "ask the vendor for a new key";
    expect(result).toEqual([
      ["this machine has no place: activate it", ""],
      [
        "The sentence of MACHINE_LIMIT_REACHED: close the program on another machine, or ask your administrator",
        "MACHINE_LIMIT_REACHED",
      ],
      [`The sentence of INVALID_KEY: ${newKey}`, "INVALID_KEY"],
      [`The sentence of KEY_EXPIRED: ${newKey}`, "KEY_EXPIRED"],
      ["The sentence of FORBIDDEN", "FORBIDDEN"],
      null,
      ["the license service gives no answer: connection refused", ""],
      ["the license service gives no answer: its answer has status 200 and is not from the service", ""],
      ["the license service gives no answer: 503 SERVICE_UNAVAILABLE", ""],
      ["the clock is behind: correct it, go online, or open a newer license", ""],
      ["this machine has no place: activate it", ""],
    ]);
  });

  test("download returns a whole file that is there when the service gives no answer, while the machine may work", async () => {
    const result = await run(`
client, found = create(), []
os.chdir(home)
def put(name, text, checksum=None):
    with open(name, "w") as file:
        file.write(text)
    checksum = checksum or checksum_of(name)
    with open(f"{name}.checksum", "w") as file:
        file.write(checksum + "\\n")
    clock[0] += 1
    os.utime(f"{name}.checksum", (clock[0], clock[0]))
put("speller-2.0.0.onnx", "two")
put("speller-1.0.0.onnx", "one")
put("speller-3.0.0.onnx", "torn", "sha256:" + "0" * 64)
put("speller-large-1.0.0.onnx", "other")
def load(*args):
    path = refused(client.download, *args, folder=".")
    return os.path.relpath(path[0], home) if isinstance(path, list) and os.path.isabs(path[0]) else path
script(client)
found.append(load("speller"))
script(client, activate=[seat(100_000)])
client.activate()
for answer in (None, refusal(503, "SERVICE_UNAVAILABLE"), refusal(403, "FORBIDDEN")):
    script(client, models=[answer])
    found.append(load("speller"))
script(client)
found += [load("speller", "2.0.0"), load("speller", "3.0.0"), load("speller", "2.0"), load("unknown"), load("speller-large")]
script(client, models=[Answer(200, {}, {"models": []})])
found += [load("speller"), load("speller", "2.0.0")]
print(json.dumps(found))`);
    const none = "the service gave no answer: connection refused";
    expect(result).toEqual([
      none,
      ...["speller-1.0.0.onnx", "speller-1.0.0.onnx", "The sentence of FORBIDDEN"],
      ...["speller-2.0.0.onnx", none, none, none, "speller-large-1.0.0.onnx"],
      "there is no model speller, or the license does not include it",
      "there is no model speller 2.0.0, or the license does not include it",
    ]);
  });

  test("settings of another form are refused at once, and no cause shows a link", async () => {
    const key = KEY.replace("svc", "Acme2");
    const result = await run(
      `
def make(url="", key="", fingerprint=""):
    return refused(Client, url, key, os.path.join(home, "state"), fingerprint=fingerprint)
urls = [make(url) for url in given["wrong"]]
assert all(isinstance(make(url), list) for url in given["right"])
assert isinstance(make("", given["key"], "é".encode().hex() * 2), list)
more = [make(key=given["key"] + "0"), make(key=given["key"].upper()), make(fingerprint="1234567"), make(fingerprint="é" * 9)]
error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")
error.reason = "WRONG_VERSION_NUMBER"
causes = [to_cause(each) for each in (error, http.client.InvalidURL("http://user:password@host"), ValueError("a secret"))]
print(json.dumps([sorted(set(urls)), more, causes]))`,
      {
        key,
        wrong: [
          ...["host", "ftp://host", "http://", "http://user@host", "http://host/path", "http://host?x=1"],
          ...[
            "http://host#x",
            "http://host:0",
            "http://host:65536",
            "http://host:x",
            "http://ho st",
            "https://host\n",
          ],
        ],
        right: ["http://host", "HTTPS://Host.example:65535/", "http://127.0.0.1:1", "http://[::1]:8080"],
      },
    );
    const address =
      "the address of the service must be http://HOST or https://HOST, perhaps with :PORT, and without a path";
    const form = "the API key must be letters and digits, _live_ or _test_, and 48 lowercase hex digits";
    const fingerprint = "the fingerprint must be 8 to 200 printable ASCII characters";
    expect(result).toEqual([
      [address],
      [form, form, fingerprint, fingerprint],
      [
        "TLS: wrong version number: is the service without TLS?",
        ...["not a valid address or answer", "not a valid address or answer"],
      ],
    ]);
  });
});

describe.skipIf(!hasCryptography)("signed licenses in long use: Python", () => {
  const PINNED = `keys=given["keys"], audience="svc"`;

  test("a refused key deletes a borrowed license, and not one that somebody put there", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const later = signLicense({ iat: now + 1, nbf: now });
    const result = await run(
      `
client, found = create(${PINNED}), []
def meet(request, answer):
    script(client, **{request: [answer]})
    client.step(request)
    found.append(client.may_work())
script(client, license=[Answer(200, {}, {"license": given["license"]})])
client.borrow()
for answer in (None, refusal(503, "SERVICE_UNAVAILABLE"), Answer(401, {}, {}), refusal(409, "MACHINE_LIMIT_REACHED")):
    meet("activate", answer)
meet("activate", refusal(401, "INVALID_KEY"))
logged = client.lines[-2]
script(client, license=[Answer(200, {}, {"license": given["license"]})])
client.borrow()
with open(client.state_file + ".license", "w") as file:
    file.write(given["later"])
meet("heartbeat", refusal(401, "INVALID_KEY"))
print(json.dumps([found, logged]))`,
      { license: signLicense(), later },
    );
    expect(result).toEqual([
      [true, true, true, true, false, true],
      "license: deleted, because the service refuses the key",
    ]);
  });

  test("the status names the later of the two ends, of the place and of the license", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const result = await run(
      `
client, found = create(${PINNED}), []
script(client, activate=[seat(300)], license=[Answer(200, {}, {"license": given["license"]})])
client.activate()
found.append(client.describe() == f"may work until {render(int(clock[0]) + 300)}")
client.borrow()
found.append(client.describe() == f"may work until {render(given['exp'])}")
script(client, heartbeat=[seat(86_400)])
client.step("heartbeat")
found.append(client.describe() == f"may work until {render(int(clock[0]) + 86_400)}")
print(json.dumps(found))`,
      { license: signLicense({ exp: now + 600 }), exp: now + 600 },
    );
    expect(result).toEqual([true, true, true]);
  });

  test("give_back keeps the license until the service confirms the release, and then names the latest end of all", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const borrowed = (days: number, iat: number) =>
      signLicense({ machine_id: "mch_1", exp: now + days * 86_400, iat, nbf: now - 9 });
    const result = await run(
      `
client, found = create(${PINNED}), []
for license in given["licenses"]:
    script(client, license=[Answer(200, {}, {"license": license})])
    client.borrow()
for answer in (None, Answer(200, {}, {}), refusal(401, "INVALID_KEY"), refusal(404, "MACHINE_NOT_FOUND"), None):
    script(client, release=[answer])
    found.append([refused(client.give_back), client.may_work()])
script(client, release=[Answer(200, {}, {"released": True})])
found.append(client.give_back())
clock[0] += 8 * 86_400
found.append(client.give_back())
print(json.dumps(found))`,
      { licenses: [borrowed(7, now - 2), borrowed(2, now - 1)] },
    );
    const stays = "the place was not given back, and the license stays";
    expect(result).toEqual([
      [`${stays}: connection refused`, true],
      [`${stays}: its answer has status 200 and is not from the service`, true],
      [`${stays}: The sentence of INVALID_KEY`, true],
      [[now + 7 * 86_400], false],
      [`${stays}: connection refused`, false],
      now + 7 * 86_400,
      null,
    ]);
  });

  test("without cryptography, borrow sends nothing", async () => {
    const result = await run(`
client = create(${PINNED})
sys.modules["cryptography"] = None
sent = script(client)
print(json.dumps([refused(client.borrow), sent]))`);
    expect(result).toEqual(["the check of a license needs the package cryptography: install it", []]);
  });
});

describe.skipIf(python === undefined)("commands in long use: Python", () => {
  const create = (url: string, more = {}) => {
    if (python === undefined) throw new Error("python3 is missing");
    const { module } = python;
    const client = install(python, url, more);
    return { ...client, run: (...args: readonly string[]) => client.runArguments([module, ...args]) };
  };

  test("say in the first line of the usage what is wrong, and in one line which setting is", async () => {
    const client = create("");
    for (const [args, why] of [
      [[], "no command is given"],
      [["halp"], "there is no command halp"],
      [["download", "speller"], "download needs NAME and FOLDER"],
      [["open-bundle"], "open-bundle needs FILE"],
      [["borrow", "long"], "borrow takes [DAYS]"],
      [["send", "all"], "send takes no arguments"],
      [["check", "license"], "check needs LICENSE, KEYS, AUDIENCE and KEY_ID"],
      [["activate"], "LICENSE_URL is not set"],
    ] as const) {
      const { status, lines } = await client.run(...args);
      expect({ status, lines: lines.slice(0, 2) }).toEqual({
        status: 2,
        lines: [why, "Usage: claviger_client.py COMMAND"],
      });
    }
    for (const [more, status, line] of [
      [
        { LICENSE_KEY: "key" },
        2,
        "Wrong LICENSE_KEY: the API key must be letters and digits, _live_ or _test_, and 48 lowercase hex digits",
      ],
      [
        { LICENSE_FINGERPRINT: "short" },
        2,
        "Wrong LICENSE_FINGERPRINT: the fingerprint must be 8 to 200 printable ASCII characters",
      ],
      [
        { LICENSE_KEYS: "/missing/keys.json" },
        1,
        "cannot read the pinned keys /missing/keys.json: no such file; `claviger licenses public-keys` prints them",
      ],
      [{}, 1, `refused: ${NOT_PINNED}`],
    ] as const)
      expect(await create("", more).run("features")).toEqual({ status, out: "", lines: [line] });
  });

  test("say that they gave up after four requests", async () => {
    using service = await startFakeService();
    const client = create(service.url);
    service.on("/v1/machines/activate", () =>
      refusedWith(503, "SERVICE_UNAVAILABLE", { "Retry-After": "1" }),
    );
    expect((await client.run("log", "inference")).status).toBe(0);
    const ended = await Promise.all(
      (["activate", "models", "send"] as const).map(async (command) => {
        const { status, lines } = await client.run(command);
        return [status, lines.at(-1)];
      }),
    );
    expect(ended).toEqual([
      [1, "gave up after four requests: 503 SERVICE_UNAVAILABLE"],
      [1, "gave up after four requests: connection closed"],
      [1, "gave up after four requests: connection closed"],
    ]);
  });

  test("end in peace when nobody reads what they print", async () => {
    const { stateFile } = create("");
    const state = { owner: "", fingerprint: "workstation-7", until: 0, seen: 0, failures: 0 };
    writeFileSync(stateFile, JSON.stringify(state));
    const command = [...(python?.command ?? []), python?.module ?? "", "status"];
    const script = 'set -o pipefail; "$@" 2> "$0" | true';
    const err = join(newFolder(), "err");
    const env = { PATH: process.env.PATH ?? "", LICENSE_STATE: stateFile };
    const child = Bun.spawn(["bash", "-c", script, err, ...command], { env });
    expect({ status: await child.exited, err: readFileSync(err, "utf8") }).toEqual({
      ...{ status: 1, err: `refused: ${NOT_PINNED}\n` },
    });
  });
});
