/**
 * The clients of the page `sdk`, run as their users run them, against a server that answers as a test says. The tests
 * of the languages run at the same time, because a client waits for real.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { basename, extname, join } from "node:path";
import SDK from "../../src/cli/guide/sdk.md" with { type: "text" };
import { until } from "../support/until.ts";
import { useFolder } from "../support/use_folder.ts";
import { createCommandLine } from "./command_line.ts";
import {
  createInstaller,
  LANGUAGES,
  type Language,
  MACHINE_ID,
  MODULES,
  refusal,
  type ScriptedServer,
  seat,
  startScriptedServer,
  withoutTimes,
} from "./sdk_languages.ts";

// A busy machine starts an interpreter in seconds.
setDefaultTimeout(120_000);

const KEY = `svc_live_${"0123456789abcdef".repeat(3)}`;
const folder = useFolder();
const createClient = createInstaller(folder, KEY);

/** The names of the languages of code blocks on the page. */
const BLOCKS = { Python: "python", TypeScript: "ts", shell: "sh" } as const;

/** Runs the example of the section "In a program", as its reader would: a file beside the module, with an own address. */
async function runExample({ name, command, module }: Language, url: string) {
  const home = mkdtempSync(join(folder, "example-"));
  copyFileSync(module, join(home, basename(module)));
  const kind = name.split(" ")[0] as keyof typeof BLOCKS;
  const [, section = ""] = SDK.split("## In a program\n");
  const [, example = ""] = new RegExp(`^\`\`\`${BLOCKS[kind]}\\n(.*?)^\`\`\`$`, "ms").exec(section) ?? [];
  const stateFile = join(home, "license.json");
  const own = example
    .replace("https://licenses.example.org", url)
    .replace("/var/lib/app/license.json", stateFile);
  const before = { Python: `api_key = "${KEY}"\n`, TypeScript: `const apiKey = "${KEY}";\n`, shell: "" };
  const after = { Python: "", TypeScript: "", shell: "kill $!\n" };
  const program = join(home, `program${extname(module)}`);
  writeFileSync(program, before[kind] + own + after[kind]);
  const env = {
    PATH: process.env.PATH ?? "",
    ...{ LICENSE_URL: url, LICENSE_KEY: KEY, LICENSE_STATE: stateFile },
  };
  const options = { cwd: home, env, stdout: "pipe", stderr: "pipe", timeout: 100_000 } as const;
  const child = Bun.spawn([...command, program], options);
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  const ended = { status: await child.exited, out };
  const state = JSON.parse(readFileSync(stateFile, "utf8"));
  return { ended, err, state };
}

function pathsOf({ requests }: ScriptedServer): string[] {
  return requests.map(({ path }) => path.replace("/v1/machines/", ""));
}

describe("a client of the page `sdk`", () => {
  for (const language of LANGUAGES) {
    test.concurrent(`survives lost answers, full seats, a kill and an ended seat: ${language.name}`, async () => {
      using server = await startScriptedServer();
      const client = createClient(language, server.url);

      server.answerWith("close", refusal(409, "MACHINE_LIMIT_REACHED", 1), seat(600));
      const first = client.start("run");
      await until(() => first.lines.length === 3, { limitMs: 60_000 });
      first.client.kill("SIGKILL");
      await first.reading;
      expect(first.lines.map(withoutTimes)).toEqual([
        "activate: no answer: WHY; may not work; activate in 1 s",
        "activate: 409 MACHINE_LIMIT_REACHED; may not work; activate in 1 s",
        expect.stringMatching(/^activate: 200; may work until TIME; heartbeat in [12]\d\d s$/),
      ]);
      expect(server.requests[0]?.fields).toMatchObject({ api_key: KEY, fingerprint: "workstation-7" });
      expect(client.readState().machine_id).toBe(MACHINE_ID);
      expect(await client.run("status")).toMatchObject({
        status: 0,
        out: expect.stringMatching(
          new RegExp(`^may work until .*\nmachine ${MACHINE_ID}\nfingerprint workstation-7\n$`),
        ),
      });

      server.answerWith(
        refusal(503, "SERVICE_UNAVAILABLE", 1),
        "cut",
        refusal(404, "MACHINE_NOT_FOUND"),
        seat(3),
        refusal(401, "INVALID_KEY"),
      );
      const { status, lines } = await client.run("run");
      expect({ status, lines }).toEqual({
        status: 1,
        lines: [
          "heartbeat: 503 SERVICE_UNAVAILABLE; may work until TIME; heartbeat in 1 s",
          expect.stringMatching(
            /^heartbeat: no answer(: WHY| \(200\)); may work until TIME; heartbeat in 2 s$/,
          ),
          "heartbeat: 404 MACHINE_NOT_FOUND; may not work; activate in 0 s",
          expect.stringMatching(/^activate: 200; may (work until TIME|not work); heartbeat in 6 s$/),
          "heartbeat: 401 INVALID_KEY; may not work; stop: A sentence",
        ],
      });
      expect(pathsOf(server)).toEqual([
        ...["activate", "activate", "activate"],
        ...["heartbeat", "heartbeat", "heartbeat", "activate", "heartbeat"],
      ]);
      expect(client.readState()).toMatchObject({ machine_id: null, until: 0 });
    });

    test.concurrent(`works offline after a restart until its seat ends, for this key alone: ${language.name}`, async () => {
      const nobody = "http://127.0.0.1:1";
      using server = await startScriptedServer();
      server.answerWith(seat(600));
      const client = createClient(language, server.url);
      expect((await client.run("activate")).status).toBe(0);
      const state = client.readState();

      const { client: offline, lines, reading } = client.start("run");
      await until(() => lines.length === 1, { limitMs: 60_000 });
      offline.kill("SIGTERM");
      await reading;
      expect(lines.map(withoutTimes)).toEqual([
        "heartbeat: no answer: WHY; may work until TIME; heartbeat in 1 s",
      ]);

      const write = (fields: object) =>
        writeFileSync(client.stateFile, JSON.stringify({ ...state, ...fields }));
      const nowSeconds = Math.floor(Date.now() / 1_000);
      const out = expect.stringMatching(/^may not work\n/);
      write({ until: nowSeconds - 1 });
      expect(await client.run("status")).toMatchObject({ status: 1, out });
      write({ seen: nowSeconds + 3_600 });
      expect(await client.run("status")).toMatchObject({ status: 1, out });
      for (const other of [
        { LICENSE_KEY: KEY.replace("live", "test") },
        { LICENSE_URL: nobody },
        { LICENSE_FINGERPRINT: "workstation-8" },
      ]) {
        write({});
        const copy = createClient(language, server.url, { LICENSE_STATE: client.stateFile, ...other });
        expect(await copy.run("status")).toMatchObject({ status: 1, out });
      }
      writeFileSync(client.stateFile, '{"owner":');
      expect(await client.run("status")).toMatchObject({ status: 1, out });
    });

    test.concurrent(`activates and releases: ${language.name}`, async () => {
      using server = await startScriptedServer();
      const client = createClient(language, server.url, { LICENSE_NAME: 'Ada\'s "laptop" \\ $(id)' });
      server.answerWith(refusal(409, "MACHINE_LIMIT_REACHED", 600));
      expect(await client.run("activate")).toMatchObject({ status: 1 });
      server.answerWith({ status: 200, body: { machine_id: null, expires_at: null } });
      expect(await client.run("activate")).toMatchObject({
        status: 0,
        lines: ["activate: 200; may work until TIME; heartbeat in 3600 s"],
      });
      expect(server.requests[0]?.fields).toEqual({
        api_key: KEY,
        fingerprint: "workstation-7",
        name: 'Ada\'s "laptop" \\ $(id)',
        platform: expect.stringMatching(/^linux$/i),
      });
      server.answerWith("close", { status: 200, body: { released: true, machine_id: MACHINE_ID } });
      expect(await client.run("release")).toMatchObject({ status: 0 });
      server.answerWith(refusal(404, "MACHINE_NOT_FOUND"));
      expect(await client.run("release")).toEqual({
        ...{ status: 0, out: "" },
        lines: ["release: 404 MACHINE_NOT_FOUND; may not work; done"],
      });
      expect(server.requests[2]?.fields).toEqual({ api_key: KEY, fingerprint: "workstation-7" });
      expect(pathsOf(server)).toEqual(["activate", "activate", "release", "release", "release"]);
    });

    test.concurrent(`sends the key nowhere else, and says what is missing: ${language.name}`, async () => {
      using server = await startScriptedServer();
      using other = await startScriptedServer();
      server.answerWith(
        { status: 307, headers: { Location: `${other.url}/v1/machines/activate` }, body: {} },
        refusal(401, "INVALID_KEY"),
      );
      const client = createClient(language, server.url);
      expect(await client.run("activate")).toMatchObject({ status: 1 });
      expect({ here: server.requests.length, there: other.requests.length }).toEqual({ here: 2, there: 0 });
      const usage = {
        status: 2,
        out: "",
        lines: expect.arrayContaining([expect.stringContaining("LICENSE_KEY")]),
      };
      expect(await client.run("nothing")).toEqual(usage);
      expect(await createClient(language, server.url, { LICENSE_KEY: "" }).run("activate")).toEqual(usage);
    });

    test.concurrent(`says in one line why it cannot begin, and sends nothing: ${language.name}`, async () => {
      using server = await startScriptedServer();
      const host = new URL(server.url).host;
      for (const url of [host, `ftp://${host}`, "http://"]) {
        expect({ url, ...(await createClient(language, url).run("run")) }).toEqual({
          ...{ url, status: 2, out: "" },
          lines: [expect.stringMatching(/^Wrong LICENSE_URL: the address of the service must .*https?:\/\//)],
        });
      }
      const stateFile = join(folder, "missing", "state.json");
      expect(await createClient(language, server.url, { LICENSE_STATE: stateFile }).run("run")).toEqual({
        ...{ status: 1, out: "" },
        lines: [expect.stringContaining(`cannot write ${stateFile}`)],
      });
      expect(server.requests).toEqual([]);
    });

    test.concurrent(`runs the example of the guide, which waits for the first answer: ${language.name}`, async () => {
      using server = await startScriptedServer();
      server.answerWith(seat(600), seat(600));
      const { ended, state } = await runExample(language, server.url);
      expect(ended).toEqual({ status: 0, out: "Licensed\n" });
      expect(state).toMatchObject({ machine_id: MACHINE_ID });
      expect(pathsOf(server)[0]).toBe("activate");
    });

    test.concurrent(`runs the example of the guide, which says that it has no place: ${language.name}`, async () => {
      using server = await startScriptedServer();
      server.answerWith(refusal(401, "INVALID_KEY"));
      const { ended, err } = await runExample(language, server.url);
      expect(ended.out + err).toContain("Every seat is taken, the key is refused, or");
      expect(ended.out).not.toContain("Licensed");
    });
  }

  for (const language of LANGUAGES.filter(({ name }) => name.startsWith("shell"))) {
    test.concurrent(`is a module for a script under set -eu, also without a state file: ${language.name}`, async () => {
      using server = await startScriptedServer();
      server.answerWith("close", seat(600));
      const client = createClient(language, server.url);
      const script = `set -eu
        . ${join(MODULES, "claviger_client.sh")}
        if may_work; then echo "works before open_state"; fi
        if (unset LICENSE_KEY; open_state) 2> /dev/null; then echo "opened without a key"; fi
        open_state
        if may_work; then echo early; fi
        try_often activate
        open_state && may_work && echo "may work"
        rm "$LICENSE_STATE"
        open_state && if may_work; then echo late; fi
        echo end`;
      const { status, out } = await client.runArguments(["-c", script]);
      expect({ status, out }).toEqual({ status: 0, out: "may work\nend\n" });
    });
  }

  const python = LANGUAGES.find(({ name }) => name === "Python");
  test.concurrent.skipIf(python === undefined)("goes on after one nap if the computer slept: Python", () => {
    const script = `
import sys
sys.path.insert(0, sys.argv[1])
import claviger_client
clock, naps = [1800000000.0], []
claviger_client.time.time = lambda: clock[0]
class Sleep:
    jump = 0
    def is_set(self):
        return False
    def wait(self, seconds):
        naps.append(seconds)
        clock[0] += seconds + self.jump
claviger_client.pause(600, Sleep())
print(40 <= len(naps) <= 44, max(naps))
for Sleep.jump in (7200, -7200):
    naps.clear()
    claviger_client.pause(600, Sleep())
    print(naps)`;
    const args = [...(python?.command ?? []).slice(1), "-c", script, MODULES];
    const { stdout, stderr } = spawnSync(python?.command[0] ?? "", args, { encoding: "utf8" });
    expect({ stdout, stderr }).toEqual({ stdout: "True 15\n[15]\n[15]\n", stderr: "" });
  });

  for (const language of LANGUAGES.filter(({ name }) => name.startsWith("TypeScript"))) {
    test.concurrent(`goes on after one nap if the computer slept: ${language.name}`, async () => {
      const measure = async (jumpMs: number) => {
        const script = `
          const { pause } = await import(process.argv.at(-1) + "/claviger_client.ts");
          const began = performance.now();
          const now = Date.now;
          setTimeout(() => { Date.now = () => now() + ${jumpMs}; }, 2_000);
          await pause(600);
          console.log(Math.round((performance.now() - began) / 1_000));`;
        const command = [language.command[0] ?? "", "-e", script, MODULES];
        const client = Bun.spawn(command, { stdout: "pipe", timeout: 100_000 });
        return Number(await client.stdout.text());
      };
      // One nap is 15 s.
      for (const seconds of await Promise.all([measure(7_200_000), measure(-7_200_000)]))
        expect(seconds).toBeWithin(15, 60);
    });
  }

  for (const { name, command, module } of LANGUAGES.filter(({ name }) => name.startsWith("shell"))) {
    test.concurrent(`goes on after one nap if the computer slept: ${name}`, () => {
      const bin = mkdtempSync(join(folder, "bin-"));
      const write = (program: string, text: string) => {
        writeFileSync(join(bin, program), `#!/bin/sh\n${text}\n`);
        chmodSync(join(bin, program), 0o755);
      };
      write("date", `cat ${bin}/clock`);
      write("sleep", `echo "$1" >> ${bin}/naps; echo $(($(cat ${bin}/clock) + $1 + JUMP)) > ${bin}/clock`);
      const script = `. ${module}
        export JUMP
        for JUMP in 0 7200 -7200; do
          : > ${bin}/naps
          echo 1800000000 > ${bin}/clock
          pause 600
          wc -l < ${bin}/naps
        done`;
      const env = { PATH: `${bin}:${process.env.PATH}` };
      const { stdout, stderr } = spawnSync(command[0] ?? "", [...command.slice(1), "-c", script], {
        encoding: "utf8",
        env,
      });
      expect({ stdout, stderr }).toEqual({
        stdout: expect.stringMatching(/^ *4[0-4]\n *1\n *1\n$/),
        stderr: "",
      });
    });
  }
});

test("The clients have the same fingerprint and the same state file in every language", async () => {
  using server = await startScriptedServer();
  const states: string[] = [];
  for (const language of LANGUAGES) {
    server.answerWith(seat(600));
    const client = createClient(language, server.url, { LICENSE_FINGERPRINT: "" });
    expect((await client.run("activate")).status).toBe(0);
    states.push(client.stateFile);
  }
  const read = (file: string) => JSON.parse(readFileSync(file, "utf8"));
  const hasMachineId = existsSync("/etc/machine-id") || existsSync("/var/lib/dbus/machine-id");
  const fingerprints = new Set(states.map((file) => read(file).fingerprint));
  if (hasMachineId) expect(fingerprints.size).toBe(1);
  for (const fingerprint of fingerprints) expect(fingerprint).toMatch(/^[0-9a-f]{64}$/);
  // One of those that run the same module: the first.
  const readers = new Map(LANGUAGES.toReversed().map((language) => [language.module, language])).values();
  for (const language of readers) {
    for (const file of states) {
      const before = readFileSync(file, "utf8");
      const { status } = await createClient(language, server.url, {
        LICENSE_FINGERPRINT: "",
        LICENSE_STATE: file,
      }).run("status");
      expect({ language: language.name, status, after: readFileSync(file, "utf8") }).toEqual({
        ...{ language: language.name, status: 0, after: before },
      });
    }
  }
});

test("The client in shell shows the key in no list of processes", async () => {
  const bin = mkdtempSync(join(folder, "bin-"));
  writeFileSync(
    join(bin, "curl"),
    `#!/bin/sh\necho "$@" >> ${bin}/arguments\nenv >> ${bin}/environment\ncat > ${bin}/sent\n`,
  );
  chmodSync(join(bin, "curl"), 0o755);
  const shell = { name: "sh", command: ["sh"], module: join(MODULES, "claviger_client.sh") };
  const client = createClient(shell, "http://127.0.0.1:1", { PATH: `${bin}:${process.env.PATH}` });
  const { client: running, lines, reading } = client.start("run");
  await until(() => lines.some((line) => line.startsWith("activate:")));
  running.kill();
  await reading;
  expect(readFileSync(join(bin, "sent"), "utf8")).toContain(KEY);
  expect(lines.join("\n")).not.toContain(KEY);
  expect(readFileSync(join(bin, "arguments"), "utf8")).not.toContain(KEY);
  expect(readFileSync(client.stateFile, "utf8")).not.toContain(KEY);
});

test("The client in shell has no fault that shellcheck finds", () => {
  if (Bun.which("shellcheck") === null) {
    console.warn("Skipped shellcheck: it is missing");
    return;
  }
  const { stdout } = spawnSync("shellcheck", ["-s", "sh", join(MODULES, "claviger_client.sh")], {
    encoding: "utf8",
  });
  expect(stdout).toBe("");
});

describe("claviger guide sdk", () => {
  test("prints each client and the test vectors as they are in the checkout", async () => {
    using line = createCommandLine();
    for (const [language, file] of [
      ["python", "claviger_client.py"],
      ["typescript", "claviger_client.ts"],
      ["shell", "claviger_client.sh"],
    ] as const) {
      const { out } = await line.run(["guide", "sdk", "--client", language]);
      expect(out).toBe(readFileSync(join(MODULES, file), "utf8"));
    }
    const { out } = await line.run(["guide", "sdk", "--vectors"]);
    const read = (file: string) => JSON.parse(readFileSync(join(MODULES, file), "utf8"));
    expect(JSON.parse(out)).toEqual({ ...read("vectors.json"), licenses: read("license_vectors.json") });
  });
});
