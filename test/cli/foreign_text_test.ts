/**
 * Tests how an operator sees texts from outside: no text moves the cursor, forges a line or reverses the
 * direction.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { refusalOf, usageErrorOf } from "./command_line.ts";
import { useServing } from "./use_command_line.ts";

/** A line that looks like a line of `doctor`, both kinds of terminal sequences, and changes of direction. */
const FORGED = "gone\r\nok    all is well\u001b[2J\u009b31m\u007f\u061c\u200e\u200f\u202e\u2066\u2028\u0085";
const ESCAPED =
  "gone\\r\\nok    all is well\\u001b[2J\\u009b31m\\u007f\\u061c\\u200e\\u200f\\u202e\\u2066\\u2028\\u0085";
/** A refusal's line breaks become "; " before the escaping. */
const ESCAPED_IN_SENTENCE = ESCAPED.replace("\\r\\n", "; ");
/** Options refuse control characters, but accept those that change the direction. */
const OPTION = FORGED.replaceAll(/\p{Cc}/gu, "");
const UNPRINTABLE = /[^\P{C}\n]|[\p{Zl}\p{Zp}]/u;

const { line, service } = useServing();
/** Stands for a server of an attacker, or for another program at the address. */
let hostile: ReturnType<typeof Bun.serve>;
let key: { readonly id: string; readonly email: string; readonly api_key: string };

beforeAll(async () => {
  hostile = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => Response.json({ status: FORGED, database: FORGED, error: FORGED }, { status: 503 }),
  });
  key = await line.json([
    ...["keys", "issue", "--email", "ada@example.org", "--tier", "free"],
    ...["--organization", OPTION],
  ]);
  await service.post("/v1/analytics/log", { api_key: key.api_key, event_type: "inference" });
  await line.json(["keys", "suspend", key.id, "--reason", OPTION]);
});
afterAll(async () => {
  await hostile.stop(true);
});

describe("the output for people escapes texts from outside", () => {
  test("in the error of a health answer", async () => {
    const answer = await line.run(["health", "--url", `http://127.0.0.1:${hostile.port}`]);
    expect(refusalOf(answer)).toEndWith(ESCAPED_IN_SENTENCE);
  });

  test("in the database of a health answer", async () => {
    const healthy = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => Response.json({ status: "healthy", database: FORGED }),
    });
    const { out } = await line.run(["health", "--url", `http://127.0.0.1:${healthy.port}`]);
    await healthy.stop(true);
    expect(out).toEndWith(`database ${ESCAPED}\n`);
  });

  test("in doctor's findings about a service's note and about the server at its address", async () => {
    const path = join(line.dataDir, "serving");
    const note = readFileSync(path, "utf8");
    const doctor = async (change: object) => {
      writeFileSync(path, JSON.stringify({ ...JSON.parse(note), ...change }));
      const { out, err } = await line.here(["doctor"]);
      writeFileSync(path, note);
      expect(out + err).not.toMatch(UNPRINTABLE);
      expect(out.match(/^ok +all is well/gm)).toBeNull();
      return out;
    };
    expect(await doctor({ port: hostile.port })).toContain(`:${hostile.port}: ${ESCAPED}\n`);
    expect(await doctor({ host: FORGED })).toContain(`keys reach ${ESCAPED} unencrypted`);
    const tls = { certFile: FORGED, keyFile: FORGED };
    expect(await doctor({ tls })).toContain(ESCAPED);
  });

  test("in tables and fields", async () => {
    for (const args of [
      ["accounts", "list", "--search", key.email],
      ["keys", "show", key.id],
      ["audit", "--key", key.id],
    ]) {
      const { out } = await line.here(args);
      expect(out).not.toMatch(UNPRINTABLE);
      expect(out).toContain("\\u061c\\u200e\\u200f\\u202e\\u2066\\u2028");
    }
  });

  test("in sentences of refusal and of wrong usage", async () => {
    expect(usageErrorOf(await line.here(["keys", "list", "--account", FORGED]))).toContain(
      ESCAPED_IN_SENTENCE,
    );
    expect(usageErrorOf(await line.here(["keys", "list", "--tier", FORGED]))).toContain(ESCAPED_IN_SENTENCE);
    expect(usageErrorOf(await line.here(["backup", "--verify", FORGED]))).toContain(ESCAPED_IN_SENTENCE);
    expect(refusalOf(await line.here(["models", "remove", FORGED]))).not.toMatch(UNPRINTABLE);
  });
});

describe("--json", () => {
  test("prints only printable text, from which every character can be restored", async () => {
    const { out } = await line.here(["audit", "--json", "--key", key.id, "--limit", "1"]);
    expect(out).not.toMatch(UNPRINTABLE);
    const [{ reason }] = JSON.parse(out);
    expect(reason).toBe(OPTION);
    const answer = await line.run(["health", "--json", "--url", `http://127.0.0.1:${hostile.port}`]);
    expect(answer.out).not.toMatch(UNPRINTABLE);
    expect(JSON.parse(answer.out).error).toBe(FORGED);
  });
});

describe("--csv", () => {
  const formulas = ["=1+1", "+1", "-1", "@SUM(1)", "＝1+1", "＋1", "－1", "＠SUM(1)", "﹢1", "−1"];
  const hidden = ["", " ", "\u00a0", "\u3000 ", "\u200b", "\ufeff"];
  const harmless = ["Acme", "a=1", "1-1", "Zoë 李"];

  test("keeps a spreadsheet from reading a name as a formula", async () => {
    const names = formulas.flatMap((formula) => hidden.map((front) => front + formula));
    const organizations = [...names, ...harmless];
    const rows = organizations.map((organization, index) => ({
      api_key: `svc_live_${index.toString(16).padStart(48, "0")}`,
      email: `formula-${index.toString().padStart(3, "0")}@example.org`,
      organization,
      tier: "free",
      used: 1,
    }));
    const file = line.write("formulas.jsonl", rows.map((row) => JSON.stringify(row)).join("\n"));
    await line.json(["keys", "import", file]);
    const month = new Date().toISOString().slice(0, 7);
    const { out } = await line.here(["usage", "export", "--month", month, "--csv"]);
    const cells = out
      .split("\r\n")
      .filter((row) => row.includes(",formula-"))
      .map((row) => row.split(",")[4]);
    expect(cells).toEqual(organizations.map((name) => (harmless.includes(name) ? name : `'${name}`)));
  });
});
