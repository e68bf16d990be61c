/**
 * Programs of one machine in a closed network share one state file and so one journal, also programs in both languages:
 * while they record at the same time, and others report, each use is reported once.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { useFolder } from "../support/use_folder.ts";
import { PINNED_KEYS, signLicense } from "./sdk_fake_service.ts";
import { LANGUAGES, MODULES } from "./sdk_languages.ts";
import { hasCryptography } from "./sdk_python.ts";

// A busy machine starts an interpreter in seconds.
setDefaultTimeout(120_000);

const folder = useFolder();
const USES = 400;
const REPORT = { machine: "5d".repeat(32), key: Buffer.alloc(32, 7).toString("base64url") };

/** Records so many uses, as the arguments say, and prints their keys; or reports until so many uses are reported. */
const PROGRAMS: Readonly<Record<string, string>> = {
  Python: `
import json, os, sys, time
sys.path.insert(0, ${JSON.stringify(MODULES)})
from claviger_client import Client, Refused
home, work, number = sys.argv[1:]
client = Client(
    state_file=os.path.join(home, "state"), fingerprint="workstation-7", audience="svc",
    keys=os.path.join(home, "keys.json"),
)
if work == "record":
    for index in range(int(number)):
        print(client.record("inference", model_name="é" * 60))
        if index % 20 == 0:
            time.sleep(0.002)
else:
    until = time.monotonic() + 100
    while not os.path.exists(os.path.join(home, "stop")) and time.monotonic() < until:
        try:
            client.report(os.path.join(home, f"{os.getpid()}-{time.monotonic_ns()}.copy"), with_events=True)
        except Refused as error:
            assert str(error) == "another report is being written: wait until it is done", error
        time.sleep(0.005)
`,
  "TypeScript on Bun": `
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from ${JSON.stringify(join(MODULES, "claviger_client.ts"))};
const [home, work, number] = process.argv.slice(2);
const client = new Client({
  stateFile: join(home, "state"), fingerprint: "workstation-7", audience: "svc", keys: join(home, "keys.json"),
});
if (work === "record")
  for (let index = 0; index < Number(number); index++) {
    console.log(client.record("inference", { modelName: "é".repeat(60) }));
    if (index % 20 === 0) await sleep(2);
  }
else
  for (const until = Date.now() + 100_000; !existsSync(join(home, "stop")) && Date.now() < until; await sleep(5))
    try {
      client.report(join(home, process.pid + "-" + performance.now() + ".copy"), { withEvents: true });
    } catch (error) {
      if (error.message !== "another report is being written: wait until it is done") throw error;
    }
`,
};

const known = LANGUAGES.filter(({ name }) => name in PROGRAMS && (hasCryptography || name !== "Python"));

/** Starts programs in these languages that record at once, and one in each that reports; returns what became of the uses. */
async function share(names: readonly string[]) {
  const home = mkdtempSync(join(folder, "home-"));
  writeFileSync(join(home, "keys.json"), JSON.stringify(PINNED_KEYS));
  const license = signLicense({ sub: "lic_01a2038780767b698ef799a812850001", report: REPORT });
  writeFileSync(join(home, "state.license"), license);
  const start = (name: string, ...args: readonly string[]) => {
    const language = known.find((each) => each.name === name);
    const path = join(home, name === "Python" ? "program.py" : "program.ts");
    writeFileSync(path, PROGRAMS[name] ?? "");
    const child = Bun.spawn([...(language?.command ?? []), path, home, ...args], {
      ...{ stdout: "pipe", stderr: "pipe", timeout: 110_000 },
      env: { PATH: process.env.PATH ?? "" },
    });
    return Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  };
  const reporters = [...new Set(names)].map((name) => start(name, "report", "0"));
  const recorded = await Promise.all(names.map((name) => start(name, "record", String(USES))));
  writeFileSync(join(home, "stop"), "");
  for (const [, err, status] of [...recorded, ...(await Promise.all(reporters))])
    expect({ err, status }).toEqual({ err: "", status: 0 });
  // What waits is reported last.
  const [first = ""] = names;
  const { command = [], module = "" } = known.find(({ name }) => name === first) ?? {};
  const last = Bun.spawn([...command, module, "report", join(home, "last"), "--events"], {
    ...{ stdout: "pipe", stderr: "pipe" },
    env: {
      ...{ PATH: process.env.PATH ?? "", LICENSE_STATE: join(home, "state"), LICENSE_AUDIENCE: "svc" },
      ...{ LICENSE_KEYS: join(home, "keys.json"), LICENSE_FINGERPRINT: "workstation-7" },
    },
  });
  expect({ status: await last.exited, err: await last.stderr.text() }).toMatchObject({ status: 0 });
  const reports = readdirSync(join(home, "state.reports"))
    .toSorted()
    .map((name) => {
      const text = readFileSync(join(home, "state.reports", name), "utf8").trim();
      const fields = JSON.parse(Buffer.from(text.split(".")[1] ?? "", "base64url").toString());
      return { fields, digest: new Bun.CryptoHasher("sha256").update(text).digest("hex") };
    });
  reports.forEach(({ fields }, index) => {
    expect(fields.number).toBe(index + 1);
    expect(fields.previous).toBe(index === 0 ? null : reports[index - 1]?.digest);
  });
  const keys = reports.flatMap(({ fields }) => fields.events.map((event: Use) => event.idempotency_key));
  return { keys, wanted: recorded.flatMap(([out]) => out.trim().split("\n")), reports: reports.length };
}

interface Use {
  readonly idempotency_key: string;
}

describe("programs of one machine share a journal", () => {
  const [one, other] = ["Python", "TypeScript on Bun"];
  for (const names of [
    [one, one],
    [other, other],
    [one, other],
  ] as [string, string][])
    test.skipIf(!names.every((name) => known.some((each) => each.name === name)))(
      `no use is lost and none is there twice: ${names.join(" and ")}`,
      async () => {
        const { keys, wanted, reports } = await share(names);
        expect(wanted.length).toBe(USES * names.length);
        expect(keys.toSorted()).toEqual(wanted.toSorted());
        expect(reports).toBeGreaterThan(1);
      },
    );
});
