/**
 * The client in shell of the page `offline`, and the service itself, check licenses as the test vectors say. The tests of
 * the modules in Python and TypeScript are with those of their other vectors.
 */
import { expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import vectors from "../../src/cli/guide/sdk/license_vectors.json" with { type: "json" };
import { checkLicense, parseJwks, toJwk, toPem } from "../../src/licensing/signed_licenses/mod.ts";
import { createCommandLine } from "./command_line.ts";
import { WHY } from "./license_reasons.ts";

/** What a client makes of a case. */
interface Result {
  readonly why: string | null;
  readonly features?: readonly string[];
  readonly entitlements?: object;
}

/** What the client must make of the cases. */
const EXPECTED = vectors.cases.map(({ name, why, features, entitlements }) => ({
  name,
  ...(why === null ? { why, features, entitlements } : { why: WHY[why] ?? why }),
}));

test("the client in shell decides about good and expired licenses as the vectors say, and prints what they have", async () => {
  using line = createCommandLine();
  line.write("check.sh", (await line.run(["guide", "offline", "--client", "shell"])).out);
  const keys = parseJwks(JSON.stringify(vectors.keys)) ?? [];
  line.write("keys.pem", keys.map((key) => `# ${toJwk(key).kid} (signing)\n${toPem(key)}`).join("\n"));
  // The client asks the system for the time.
  line.write("date", '#!/bin/sh\n[ "$*" = +%s ] && echo "$NOW" || exec /bin/date "$@"\n');
  chmodSync(join(line.folder, "date"), 0o755);
  const isChosen = ({ why }: Result) => why === null || why === "expired" || why === WHY.expired;
  const results: object[] = [];
  for (const { name, license, audience, key_id, fingerprint, now, seen } of vectors.cases.filter(isChosen)) {
    line.write("license", license);
    line.write("license.seen", String(seen));
    const child = Bun.spawn(
      [
        "sh",
        "check.sh",
        "license",
        "keys.pem",
        audience,
        key_id,
        ...(fingerprint === null ? [] : [fingerprint]),
      ],
      {
        ...{ cwd: line.folder, stdout: "pipe", stderr: "pipe", timeout: 60_000 },
        env: { PATH: `${line.folder}:${process.env.PATH}`, TMPDIR: line.folder, NOW: String(now) },
      },
    );
    const [printed, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    const why = err.replace("refused: ", "").trim();
    results.push({ name, ...((await child.exited) === 0 ? readAnswer(printed) : { why }) });
  }
  expect(results).toEqual(EXPECTED.filter(isChosen));
}, 60_000);

/** Reads what the client in shell prints. */
function readAnswer(printed: string): Result {
  const [first = "", ...lines] = printed.trimEnd().split("\n");
  const of = (kind: string) =>
    lines.filter((text) => text.startsWith(`${kind} `)).map((text) => text.slice(kind.length + 1));
  const values = of("value").map((text) => /^(\S+) (.*)$/.exec(text)?.slice(1) ?? [text, "null"]);
  expect(lines).toHaveLength(of("feature").length + values.length);
  return {
    why: first === "research until 2027-01-22" ? null : first,
    features: of("feature"),
    entitlements: Object.fromEntries(values.map(([name, value = ""]) => [name, JSON.parse(value)])),
  };
}

test("the service itself finds the signatures of the vectors good or bad as they say", () => {
  const trusted = parseJwks(JSON.stringify(vectors.keys)) ?? [];
  for (const { name, license, now, why } of vectors.cases) {
    const checked = checkLicense(license, { trusted, audience: "svc", now: new Date(now * 1_000) });
    const isBad = ["no_license", "not_pinned", "not_genuine"].includes(why ?? "");
    expect({ name, ok: checked.ok }).toEqual({ name, ok: !isBad });
  }
});

test("`claviger guide offline --vectors` prints them as they are in the checkout", async () => {
  using line = createCommandLine();
  expect(JSON.parse((await line.run(["guide", "offline", "--vectors"])).out)).toEqual(vectors);
  const { status, err } = await line.run(["guide", "keys", "--vectors"]);
  expect({ status, err }).toEqual({
    status: 2,
    err: expect.stringContaining("an option of `claviger guide offline` and `claviger guide sdk`"),
  });
});
