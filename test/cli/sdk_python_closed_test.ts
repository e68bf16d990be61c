/**
 * The client in Python on a machine without a network: its reports, its clock and its bundles are as the test vectors say, and
 * no crash, no other process and no altered byte changes what counts.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import vectors from "../../src/cli/guide/sdk/vectors.json" with { type: "json" };
import { useFolder } from "../support/use_folder.ts";
import { CLOSED_WHY, WHY } from "./license_reasons.ts";
import { makeBundle } from "./sdk_bundles.ts";
import { PINNED_KEYS, signLicense } from "./sdk_fake_service.ts";
import { listLocks } from "./sdk_locks.ts";
import { hasCryptography, python, runProgram } from "./sdk_python.ts";

// A busy machine starts an interpreter in seconds.
setDefaultTimeout(120_000);

const folder = useFolder();
const LICENSE = { sub: "lic_01a2038780767b698ef799a812850001" };
const REPORT = { machine: "5d".repeat(32), key: Buffer.alloc(32, 7).toString("base64url") };

/** A client whose license has a key for reports, without a look at the signature: `create(folder)`. */
const CLIENT = `
import base64, gzip, os, time
import claviger_client
from claviger_client import *
claims = {"sub": "${LICENSE.sub}", "iat": int(time.time()) - 60, "report": ${JSON.stringify(REPORT)}}
def create(folder):
    client = Client(state_file=os.path.join(folder, "state"), fingerprint="workstation-7")
    client.kept_license = lambda: (claims, {})
    return client
def read_reports(client):
    reports = []
    for name in sorted(name for name in os.listdir(client.reports) if name.endswith(".report")):
        with open(os.path.join(client.reports, name), encoding="ascii") as file:
            line = file.read().strip()
        fields = json.loads(decode(line.split(".")[1]))
        assert fields["previous"] == (sha256(reports[-1][0]) if reports else None)
        assert fields["number"] == len(reports) + 1
        reports.append((line, sum(row["count"] for row in fields["days"])))
    return [count for _, count in reports]
`;
const newFolder = () => JSON.stringify(mkdtempSync(join(folder, "home-")));

describe.skipIf(python === undefined)("reports and clocks: Python", () => {
  const results =
    python === undefined
      ? undefined
      : runProgram(
          `${CLIENT}
def report(license_id, machine, key, head, lines, made_at, client, with_events, **_):
    made = write_report(
        [f"{line}\\n".encode() for line in lines], Head(license_id=license_id, machine=machine, **head), decode(key),
        made_at=made_at, clients=[client], with_events=with_events,
    )
    text = made.text if made.uses > 0 else None
    return {"text": text, "uses": made.uses, "dropped": made.dropped, "digest": text and sha256(text)}
def look(seen, highest_iat, iat, now, **_):
    names, why = {"audience": "svc", "key_id": "key", "fingerprint": None}, None
    seen = clock_after(seen, highest_iat, iat)
    try:
        claims = {"aud": "svc", "key_id": "key", "iat": iat, "nbf": iat, "exp": now + 1}
        check_terms(claims, now=now, seen=seen, closed=False, **names)
    except Refused as refused:
        why = str(refused)
    return {"seen": seen, "why": why}
vectors = json.load(sys.stdin)
print(json.dumps({
    "client": claviger_client.CLIENT,
    "reports": [report(**case) for case in vectors["reports"]],
    "clocks": [look(**case) for case in vectors["clocks"]],
    "sentences": [explain(case["reason"], closed=case["closed"]) for case in vectors["sentences"]],
}))`,
          JSON.stringify(vectors),
        );

  test("are as the vectors say, and a report names the version of the module", async () => {
    const { client, reports, clocks, sentences } = await results;
    expect(sentences).toEqual(vectors.sentences.map(({ expect: sentence }) => sentence));
    expect(client).toBe(`python ${packageJson.version}`);
    expect(reports.length).toBe(vectors.reports.length);
    for (const [index, { name, expect: expected }] of vectors.reports.entries())
      expect({ name, ...reports[index] }).toEqual({ name, ...expected });
    expect(clocks.length).toBe(vectors.clocks.length);
    for (const [index, { name, expect: expected }] of vectors.clocks.entries()) {
      const why = expected.why === null ? null : WHY[expected.why];
      expect({ name, ...clocks[index] }).toEqual({ name, ...expected, why });
    }
  });
});

describe.skipIf(python === undefined)("records and reports: Python", () => {
  test("`record` refuses what the service would refuse, and that alone", async () => {
    const answers = await runProgram(`${CLIENT}
client = create(${newFolder()})
def refused(event_type="inference", **fields):
    try:
        client.record(event_type, **fields)
    except ValueError as error:
        return str(error)
deep = {}
for _ in range(32):
    deep = {"a": deep}
wrong = [
    refused("shutdown"), refused(model_name="x" * 201), refused(model_name="a\\0"), refused(model_name="\\ud800"),
    refused(inference_type="slow"), refused(duration_ms=-1), refused(duration_ms=float("inf")), refused(duration_ms=10**400),
    refused(success=1), refused(error_message="x" * 2_001), refused(metadata={"a": "x" * 16_384}), refused(metadata=deep),
    refused(metadata={"\\ufffd": 1}), refused(occurred_at="2019-12-31T23:59:59Z"), refused(occurred_at="2026-02-30T00:00:00Z"),
    refused(occurred_at="today"),
]
right = [
    refused(model_name="😀" * 200, error_message="é" * 2_000, duration_ms=1e308, metadata=deep["a"]),
    refused("error", success=True, inference_type="batch", metadata={"list": [1, None, True, {"x": "y"}]}),
    refused(occurred_at="2026-01-02T03:04:05Z"), refused(occurred_at="2026-01-02T03:04:05.67891Z"),
]
with open(client.journal.path, "rb") as file:
    times = [json.loads(line)["occurred_at"] for line in file]
path = client.journal.path + ".report"
client.report(path, with_events=True)
print(json.dumps([wrong, right, times[2:], read_reports(client)]))`);
    const metadata =
      "metadata must be an object of at most 32 levels and 16 KiB, with whole characters and finite numbers";
    const time = "occurred_at must be a time in UTC from 2020 on, such as 2026-10-31T23:59:58.250Z";
    const zone = "occurred_at must be a time with its zone";
    const name = "model_name must be a text of at most 200 characters";
    const duration = "duration_ms must be a number that is not negative";
    expect(answers).toEqual([
      [
        "event_type must be one of inference, model_load, error",
        ...[name, name, name, "inference_type must be batch or streaming", duration, duration, duration],
        ...["success must be true or false", "error_message must be a text of at most 2000 characters"],
        ...[metadata, metadata, metadata, time, zone, zone],
      ],
      [null, null, null, null],
      ["2026-01-02T03:04:05.000Z", "2026-01-02T03:04:05.678Z"],
      [4],
    ]);
  });

  test("a kill before any step of a report, and of the next one, loses no use, counts none twice, and the report after them holds all", async () => {
    const steps = await runProgram(`${CLIENT}
import shutil
CHANGES = ("open", "os.rename", "os.remove", "os.link", "os.mkdir")
def report_and_die(folder, name, step):
    """Whether a process was killed before so many steps of a report."""
    child = os.fork()
    if child == 0:
        left = [step]
        def look(event, args):
            if event in CHANGES:
                left[0] -= 1
                if left[0] < 0:
                    os._exit(9)
        client = create(folder)
        sys.addaudithook(look)
        client.report(os.path.join(folder, name), with_events=step % 3 == 0)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
home = ${newFolder()}
def run(first, second):
    """Whether both were killed."""
    folder = os.path.join(home, "machine")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    client = create(folder)
    for _ in range(3):
        client.record("inference")
    assert client.report(os.path.join(folder, "first")) == 1
    for _ in range(4):
        client.record("inference", model_name="é")
    killed = [report_and_die(folder, "second", first)]
    client = create(folder)
    client.record("error")
    if second is not None:
        killed.append(report_and_die(folder, "third", second))
        client.record("model_load")
    lines = []
    client.log = lines.append
    number = client.report(os.path.join(folder, "last"))
    assert "damaged" not in lines[-1], lines  # a line that is there twice would be one
    found, more = read_reports(client), 0 if second is None else 1
    state = (first, second, killed, number, found, client.journal.waiting())
    assert number == len(found) and found[0] == 3 and sum(found) == 8 + more and client.journal.waiting() == 0, state
    assert client.report(os.path.join(folder, "last")) is None
    assert not os.path.exists(client.journal.path + ".lock")
    client.report_again(number, os.path.join(folder, "again"))
    return killed
steps = 0
while run(steps, None)[0]:
    steps += 1
pairs = [run(first, second) for first in range(0, steps, 2) for second in range(1, steps, 3)]
print(json.dumps([steps, sum(all(killed) for killed in pairs)]))`);
    // Each step opens, renames, links or removes a file.
    expect(steps[0]).toBeGreaterThan(20);
    expect(steps[1]).toBeGreaterThan(60);
  });

  test("a report counts and is where it was wanted if the journal cannot be cut after it, and the next one holds the rest", async () => {
    const answers = await runProgram(`${CLIENT}
import errno
failing = None
def look(event, args):
    """Lets the changes of some files fail, as a full disk does, as soon as the head has the number of the report."""
    global failing, is_full
    if failing is None:
        return
    if event == "os.rename" and str(args[1]).endswith(".head"):
        is_full = True
    elif is_full and event in ("open", "os.remove", "os.rename"):
        writes = event != "open" or args[1] is None or "r" not in args[1]
        name = os.path.basename(str(args[0]))
        if writes and name.startswith(failing) and not name.endswith(".lock"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
sys.addaudithook(look)
answers = []
for uses, failing_files in ((2, "state.journal.old"), (20_003, "state.journal.old"), (2, "state.journal"), (20_003, "state.journal")):
    folder = os.path.join(${newFolder()}, f"{uses}-{failing_files}")
    os.mkdir(folder)
    client, lines = create(folder), []
    client.log = lines.append
    client.record("inference")
    with open(client.journal.path, "rb") as file:
        line = json.loads(file.read())
    with open(client.journal.path, "ab") as file:
        for index in range(1, uses):
            file.write(to_json({**line, "idempotency_key": str(index), "model_name": str(index)}) + b"\\n")
    failing, is_full = failing_files, False
    number = client.report(os.path.join(folder, "one"))
    failing = None
    is_there = os.path.exists(os.path.join(folder, "one"))
    client.record("error")
    answers.append([number, is_there, lines[0], client.report(os.path.join(folder, "two")), read_reports(client), lines[1]])
print(json.dumps(answers))`);
    const cut = "the next report cuts the journal: No space left on device";
    const few = [
      1,
      true,
      `report: 2 uses in report 1, ${cut}`,
      2,
      [2, 1],
      "report: 1 uses in report 2, 0 waiting",
    ];
    const many = [
      ...[1, true, `report: 20000 uses in report 1, ${cut}`, 2, [20_000, 4]],
      "report: 4 uses in report 2, 0 waiting",
    ];
    expect(answers).toEqual([few, many, few, many]);
  });

  test("a clock before the license was issued does not make a report that the service refuses", async () => {
    const fields = await runProgram(`${CLIENT}
folder = ${newFolder()}
client = create(folder)
client.record("inference")
claviger_client.time.time = lambda: 86_400
client.record("error")
client.report(os.path.join(folder, "report"))
with open(os.path.join(folder, "report"), encoding="ascii") as file:
    fields = json.loads(decode(file.read().split(".")[1]))
print(json.dumps([fields["made_at"] == render(claims["iat"]), [row["day"] == fields["made_at"][:10] for row in fields["days"]]]))`);
    expect(fields).toEqual([true, [true, true]]);
  });

  test("without an address and a key, the state that is there stays", async () => {
    const stays = await runProgram(`${CLIENT}
path = os.path.join(${newFolder()}, "state")
Client("http://127.0.0.1:1", "svc_live_" + 48 * "0", path, fingerprint="workstation-7")
with open(path) as file:
    before = file.read()
Client(state_file=path, fingerprint="workstation-7")
with open(path) as file:
    print(json.dumps(file.read() == before))`);
    expect(stays).toBe(true);
  });

  test("the use of many processes counts once, also while another one reports", async () => {
    const home = newFolder();
    const recorder = `${CLIENT}
client = create(${home})
for _ in range(400):
    client.record("inference")
print(1)`;
    const reporter = `${CLIENT}
client = create(${home})
until = time.monotonic() + 60
while time.monotonic() < until:
    try:
        client.report(os.path.join(${home}, f"report {time.monotonic_ns()}"))
    except Refused as error:
        assert str(error) == "another report is being written: wait until it is done"
    if os.path.exists(client.reports) and sum(read_reports(client)) >= 1_200:
        break
print(json.dumps([sum(read_reports(client)), client.journal.waiting()]))`;
    const programs = [recorder, recorder, recorder, reporter, reporter];
    const [, , , ...counted] = await Promise.all(programs.map((text) => runProgram(text)));
    expect(counted).toEqual([
      [1_200, 0],
      [1_200, 0],
    ]);
  });

  test("a second report at the same time is refused, and what a process left that has ended is taken over", async () => {
    const sleeper = Bun.spawn(["sleep", "60"]);
    const locks = listLocks({ asleep: sleeper.pid, ended: Bun.spawnSync(["true"]).pid });
    const answers = await runProgram(
      `${CLIENT}
folder = ${newFolder()}
client = create(folder)
lock = client.journal.path + ".lock"
with open("/proc/self/stat", encoding="utf-8") as file:
    begin = file.read().rpartition(")")[2].split()[19]
with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
    place = file.read().strip() + "/" + os.readlink("/proc/self/ns/pid")
answers = []
for index, given in enumerate(json.load(sys.stdin)):
    client.record("inference")
    with open(lock, "w", encoding="ascii") as file:
        file.write(given["text"].replace("PID", str(os.getpid())).replace("BEGIN", begin).replace("PLACE", place))
    os.utime(lock, (time.time() - given["ageSeconds"],) * 2)
    why = None
    try:
        client.report(os.path.join(folder, str(index)))
    except Refused as refused:
        why = str(refused)
    answers.append({"what": given["what"], "why": why, "isThere": os.path.exists(lock)})
print(json.dumps([answers, read_reports(client)]))`,
      JSON.stringify(locks),
    );
    sleeper.kill();
    const why = "another report is being written: wait until it is done";
    expect(answers[0]).toEqual(
      locks.map(({ what, isHeld }) => ({ what, why: isHeld ? why : null, isThere: isHeld })),
    );
    expect(answers[1].length).toBe(locks.filter(({ isHeld }) => !isHeld).length);
  });

  test("of two clients in one process, one alone writes a report at a time", async () => {
    const answers = await runProgram(`${CLIENT}
import threading
folder = ${newFolder()}
one, other = create(folder), create(folder)
one.record("inference")
is_reading, may_go_on, write = threading.Event(), threading.Event(), claviger_client.write_report
def write_slowly(*args, **options):
    is_reading.set()
    may_go_on.wait(60)
    return write(*args, **options)
claviger_client.write_report = write_slowly
thread = threading.Thread(target=one.report, args=(os.path.join(folder, "one"),))
thread.start()
is_reading.wait(60)
claviger_client.write_report = write
why = None
try:
    other.report(os.path.join(folder, "other"))
except Refused as refused:
    why = str(refused)
may_go_on.set()
thread.join()
other.record("error")
print(json.dumps([why, other.report(os.path.join(folder, "two")), read_reports(one), os.path.exists(os.path.join(folder, "other"))]))`);
    expect(answers).toEqual(["another report is being written: wait until it is done", 2, [1, 1], false]);
  });

  test("a report holds what fits, a full journal says so, and a journal of others is refused", async () => {
    const answers = await runProgram(`${CLIENT}
folder = ${newFolder()}
client, to = create(folder), os.path.join(folder, "out")
client.record("inference")
with open(client.journal.path, "rb") as file:
    line = json.loads(file.read())
with open(client.journal.path, "ab") as file:
    for index in range(20_010):
        file.write(to_json({**line, "idempotency_key": str(index), "model_name": str(index)}) + b"\\n")
counts = [client.report(f"{to} 1"), client.journal.waiting(), client.report(f"{to} 2"), client.report(f"{to} 3"), read_reports(client)]
def refused(work):
    try:
        work()
    except (Refused, QueueFull, OSError) as error:
        return str(error).replace(folder, "")
client.record("inference")
Journal.max_events = 30_000
with open(client.journal.path, "ab") as file:
    file.write(b"{}\\n" * 30_000)
full = refused(lambda: client.record("inference"))
long = os.path.join(folder, "x" * 300)
lost = client.report(f"{to} 4"), refused(lambda: client.report(folder)), client.record("error") and refused(lambda: client.report(long))
client.kept_license = lambda: ({**claims, "sub": "lic_other"}, {})
other = refused(lambda: client.record("inference"))
client.kept_license = lambda: (claims, {})
os.remove(client.journal.path + ".head")
missing = refused(lambda: client.record("inference"))
print(json.dumps([counts, full, lost, other, missing]))`);
    expect(answers).toEqual([
      [1, 11, 2, null, [20_000, 11]],
      "30001 uses wait in /state.journal: report them",
      [
        3,
        null,
        `report 4 is in /state.reports, but not at /${"x".repeat(300)}: File name too long; use report-again`,
      ],
      "/state.journal belongs to another license or machine: move it, its .head and /state.reports away",
      "/state.journal.head is missing or damaged: restore it, or move it, the journal and /state.reports away",
    ]);
  });
});

describe.skipIf(!hasCryptography)("bundles: Python", () => {
  const open = () => `${CLIENT}
home = ${newFolder()}
def list_files():
    paths = [os.path.join(place, name) for place, _, names in os.walk(home) for name in names]
    return sorted((path, os.stat(path).st_mtime_ns, os.stat(path).st_ino) for path in paths)
def open_one(bundle, keys, audience, fingerprint, change=lambda client: None):
    state_file = os.path.join(home, "state")
    client = Client(state_file=state_file, fingerprint=fingerprint or "", keys=keys, audience=audience)
    change(client)
    with open(os.path.join(home, "bundle"), "wb") as file:
        file.write(bundle)
    before = list_files()
    folders = [os.path.join(home, name) for name in ("models", "files")]
    try:
        client.open_bundle(os.path.join(home, "bundle"), *folders)
    except Refused as refused:
        assert list_files() == before
        return {"why": str(refused)}
    opened = [sorted(os.listdir(folder)) for folder in folders]
    for folder in folders:
        for name in os.listdir(folder):
            os.remove(os.path.join(folder, name))
    return {"why": None, "models": opened[0], "files": opened[1]}
for name in ("models", "files"):
    os.mkdir(os.path.join(home, name))
`;

  test("are opened as the vectors say, and a refused one changes no file", async () => {
    const results = await runProgram(
      `${open()}
vectors = json.load(sys.stdin)
def run(bundle, audience, key_id, fingerprint, now, seen, highest_iat, kept, **_):
    claviger_client.time.time = lambda: now
    def change(client):
        client.state = dataclasses.replace(client.state, seen=seen, fingerprint=fingerprint)
        client.write_record("license.terms", {"key_id": key_id, "iat": highest_iat})
        client.kept_license = lambda: (kept or {"iat": 0}, {})
    return open_one(gzip.decompress(base64.b64decode(bundle)), vectors["keys"], audience, fingerprint, change)
print(json.dumps([run(**case) for case in vectors["cases"]]))`,
      JSON.stringify(vectors.bundles),
    );
    const why = {
      ...CLOSED_WHY,
      not_genuine: expect.stringMatching(/^the bundle is not genuine/),
      not_pinned: "none of the pinned keys has signed the bundle: update this program",
    };
    expect(results.length).toBe(vectors.bundles.cases.length);
    for (const [index, { name, ...expected }] of vectors.bundles.cases.entries()) {
      const { models, files } = expected;
      const reason = expected.why === null ? null : why[expected.why as keyof typeof why];
      expect({ name, ...results[index] }).toEqual({
        name,
        why: reason,
        ...(reason === null && { models, files }),
      });
    }
  });

  test("are refused with any other byte, and when they are cut anywhere", async () => {
    const bundle = makeBundle({ models: { speller: "a model" }, files: { core: "x".repeat(600) } });
    const input = { bundle: bundle.toString("base64"), keys: PINNED_KEYS };
    const results = await runProgram(
      `${open()}
import random
given = json.load(sys.stdin)
bundle, reasons = base64.b64decode(given["bundle"]), set()
random.seed(50)
for index in range(1_200):
    altered = bytearray(bundle)
    place = random.randrange(len(bundle))
    if index % 3 == 0:
        altered[place] ^= 1 << random.randrange(8)
    elif index % 3 == 1:
        altered = altered[:place]
    else:
        altered[place : place + random.randrange(3)] = bytes(random.randrange(256) for _ in range(random.randrange(1, 40)))
    if altered != bundle:
        reasons.add(str(open_one(altered, given["keys"], "svc", "workstation-7")["why"])[:12])
print(json.dumps([sorted(reasons), open_one(bundle, given["keys"], "svc", "workstation-7")["why"]]))`,
      JSON.stringify(input),
    );
    expect(results).toEqual([["none of the ", "the bundle i"], null]);
  });

  test("a license that was put there corrects a clock that was ahead if it is newer, and an older one never does", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const issued = (iat: number) => signLicense({ iat, nbf: iat });
    const licenses = [now - 20, now - 10, now - 20, now - 10, now - 5, now - 5].map(issued);
    const works = await runProgram(
      `${open()}
given, works, real = json.load(sys.stdin), [], time.time
for license in given["licenses"]:
    state_file = os.path.join(home, "state")
    client = Client(state_file=state_file, fingerprint="workstation-7", keys=given["keys"], audience="svc")
    with open(client.state_file + ".license", "w") as file:
        file.write(license)
    works.append(client.may_work())
    claviger_client.time.time = lambda: real() + 86_400  # the clock is a day ahead for a while
    client.may_work()
    claviger_client.time.time = real
    assert not client.may_work()
client.send = lambda *_, **__: (Answer(200, {}, {"released": True, "machine_id": None}), "")
client.give_back()
with open(client.state_file + ".license", "w") as file:
    file.write(license)
print(json.dumps([*works, client.may_work()]))`,
      JSON.stringify({ keys: PINNED_KEYS, licenses }),
    );
    expect(works).toEqual([true, true, false, false, true, false, false]);
  });
});
