/** The clients of the page `sdk` decide as the test vectors say, in every language. */
import { describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import vectors from "../../src/cli/guide/sdk/vectors.json" with { type: "json" };
import { LANGUAGES, type Language, MODULES } from "./sdk_languages.ts";

type State = (typeof vectors.starts)[number]["state"];

describe.each(LANGUAGES)("decide() of the client: $name", (language) => {
  test("decides after each answer as the vectors say", () => {
    const results = runAnswers(language);
    expect(results.length).toBe(vectors.answers.length);
    for (const [index, { name, expect: expected }] of vectors.answers.entries())
      expect({ name, ...results[index] }).toEqual({ name, ...expected });
  });

  test("begins after each start as the vectors say", () => {
    const results = runStarts(language);
    expect(results.length).toBe(vectors.starts.length);
    for (const [index, { name, expect: expected }] of vectors.starts.entries())
      expect({ name, ...results[index] }).toEqual({ name, ...expected });
  });
});

const PYTHON = `
import dataclasses, json, sys
sys.path.insert(0, sys.argv[1])
from claviger_client import *
vectors = json.load(sys.stdin)
def to_state(fields):
    return State(owner="o", fingerprint="f", **fields)
answers = []
for case in vectors["answers"]:
    answer = Answer(**case["answer"]) if case["answer"] else None
    state, following, wait = decide(to_state(case["state"]), case["request"], answer, case["sent_at"], case["now"])
    fields = dataclasses.asdict(state)
    assert (fields.pop("owner"), fields.pop("fingerprint")) == ("o", "f")
    answers.append({"next": following, "wait_seconds": wait, "may_work": may_work(state, case["now"]), "state": fields})
starts = [
    {"next": first_request(to_state(case["state"])), "may_work": may_work(to_state(case["state"]), case["now"])}
    for case in vectors["starts"]
]
print(json.dumps({"answers": answers, "starts": starts}))`;

const TYPESCRIPT = `
import { readFileSync } from "node:fs";
const { decide, firstRequest, mayWork } = await import(process.argv.at(-1) + "/claviger_client.ts");
const vectors = JSON.parse(readFileSync(0, "utf8"));
const answers = vectors.answers.map(({ state, request, answer, sent_at, now }) => {
  const [{ owner, fingerprint, ...after }, next, wait_seconds] = decide(
    { owner: "o", fingerprint: "f", ...state }, request, answer, { sentAt: sent_at, now });
  if (owner + fingerprint !== "of") throw new Error("lost the owner");
  return { next, wait_seconds, may_work: mayWork(after, now), state: after };
});
const starts = vectors.starts.map(({ state, now }) => ({ next: firstRequest(state), may_work: mayWork(state, now) }));
console.log(JSON.stringify({ answers, starts }));`;

function runAnswers(language: Language) {
  if (!language.name.startsWith("shell")) return runAll(language).answers;
  const cases = vectors.answers.map(
    ({ state, request, answer, sent_at, now }) => `${assign(state)}
      status=${answer === null ? "000" : answer.status}
      headers=${quote(toHead(answer?.headers ?? {}))}
      body=${quote(answer === null ? "" : JSON.stringify(answer.body))}
      decide ${request} ${sent_at} ${now}
      if may_work ${now}; then may=true; else may=false; fi
      id=null
      [ -z "$machine_id" ] || id=\\"$machine_id\\"
      printf '{"next":"%s","wait_seconds":%s,"may_work":%s,"state":{"machine_id":%s,"until":%s,"seen":%s,"failures":%s}}\\n' \\
        "$next" "$wait" "$may" "$id" "$until" "$seen" "$failures"`,
  );
  return runShell(language, cases);
}

function runStarts(language: Language) {
  if (!language.name.startsWith("shell")) return runAll(language).starts;
  const cases = vectors.starts.map(
    ({ state, now }) => `${assign(state)}
      first_request
      if may_work ${now}; then may=true; else may=false; fi
      printf '{"next":"%s","may_work":%s}\\n' "$next" "$may"`,
  );
  return runShell(language, cases);
}

function runAll({ name, command: [interpreter = ""] }: Language) {
  const script = name === "Python" ? PYTHON : TYPESCRIPT;
  const option = name === "Python" ? ["-B", "-c"] : ["-e"];
  const args = [...option, script, MODULES];
  return JSON.parse(run([interpreter, ...args], JSON.stringify(vectors)));
}

function runShell({ command, module }: Language, cases: readonly string[]) {
  const out = run([...command, "-eu", "-s"], [`. ${module}`, ...cases].join("\n"));
  return out
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

function run([program = "", ...args]: readonly string[], input: string): string {
  const { status, stdout, stderr } = spawnSync(program, args, { input, encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return stdout;
}

function assign({ machine_id, until, seen, failures }: State): string {
  return `machine_id='${machine_id ?? ""}' until=${until} seen=${seen} failures=${failures}`;
}

/** Servers write names of headers in capitals, too. */
function toHead(headers: object): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name.toUpperCase()}: ${value}`);
  return ["HTTP/1.1 200 OK", ...lines].join("\n");
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
