/** POST /admin/v1/keys/{id}/bundle and the console's form: a license, its models and a manifest in one download. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DAY_MS, NEVER_EXPIRES, toDay } from "../../src/base/calendar.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { listSigningKeys } from "../../src/licensing/signed_licenses/mod.ts";
import { readBundle } from "../../src/models/bundles/mod.ts";
import { pathOfFile, storeFile } from "../../src/models/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { testBytes } from "../support/hosted.ts";
import { orThrow } from "../support/issue.ts";
import { setPlaces } from "../support/machines.ts";
import { addNewModel } from "../support/new_model.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { issueRevoked, issueSuspended } from "./sample_requests.ts";
import { attributesOf, textsOf } from "./texts_of.ts";

const admin = useAdmin({ clock: createTestClock("2026-11-22T12:00:00Z") });
const client = createConsoleClient(admin);
let token: string;
let large: string;

const LARGE_BYTES = 5_000_001;

async function host(name: string, bytes: Uint8Array, more: object = {}): Promise<string> {
  const path = join(admin.dataDir, "source");
  writeFileSync(path, bytes);
  const place = { dataDir: admin.dataDir };
  const stored = orThrow(await storeFile(place, path, { now: admin.clock.now(), onProgress() {} }));
  const fields = { name, downloadUrl: null, checksum: stored.sha256, hostedBytes: stored.sizeBytes };
  await addNewModel(
    admin.database,
    { ...fields, sizeMb: stored.sizeBytes / 1e6, ...more },
    { now: admin.clock.now() },
  );
  return stored.sha256;
}

beforeAll(async () => {
  token = await admin.token();
  large = await host("large", testBytes(LARGE_BYTES), { fileName: "large.onnx" });
  await host("small", testBytes(10));
  await host("dear", testBytes(11), { requiresLicense: "enterprise" });
});

const ask = (key: { readonly id: string }, body: object = {}, of = token) =>
  fetch(`${admin.url}/admin/v1/keys/${key.id}/bundle`, {
    method: "POST",
    headers: { authorization: `Bearer ${of}` },
    body: JSON.stringify(body),
  });

const sendForm = (key: IssuedKey, cookie: string, form: Record<string, string>) =>
  fetch(`${admin.url}/console/keys/${key.id}/bundle`, {
    method: "POST",
    headers: { origin: admin.url, cookie },
    body: new URLSearchParams(form),
  });

async function unlist(name: string): Promise<void> {
  await admin.database.query((sql) => sql`update models set listed_version = null where name = ${name}`);
}

async function read(answer: Response) {
  const bytes = await answer.bytes();
  const trusted = (await listSigningKeys(admin.database)).map(({ publicKey }) => publicKey);
  async function* chunks() {
    yield bytes;
  }
  return await readBundle(chunks(), { trusted, audience: "svc", now: admin.clock.now() });
}

async function countExports(): Promise<number> {
  return (await admin.database.query((sql) => sql`select jti from exported_licenses`)).length;
}

async function countMachines(): Promise<number> {
  return (await admin.database.query((sql) => sql`select id from machines`)).length;
}

describe("POST /admin/v1/keys/{id}/bundle", () => {
  test("answers a bundle with the license and every model that it may load, under the name of customer, machine and day", async () => {
    const key = await admin.issue({ email: "ada@example.org", expiresAt: NEVER_EXPIRES });
    const answer = await ask(key, { days: 400, fingerprint: "workstation-7", reason: "by post" });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("application/x-tar");
    expect(answer.headers.get("content-disposition")).toBe(
      'attachment; filename="ada-example.org-workstation-7-2026-11-22.tar"',
    );
    const bundle = await read(answer);
    expect(bundle).toMatchObject({
      ok: true,
      why: undefined,
      manifest: {
        key_id: key.id,
        fingerprint: "workstation-7",
        files: [
          { path: "license.jws" },
          { path: "models/large-1.0.0.onnx", sha256: large, size: LARGE_BYTES },
          { path: "models/small-1.0.0" },
        ],
      },
    });
    const [entry] = await admin.database.query<{ after: object; reason: string }>(
      (sql) => sql`select after, reason from audit where action = 'license.export' order by id desc limit 1`,
    );
    expect(entry).toMatchObject({ after: { jti: bundle.ok && bundle.manifest.jti }, reason: "by post" });
  });

  test("has the named models alone, and none for an empty list", async () => {
    const key = await admin.issue();
    const pathsOf = async (models: string[] | null) => {
      const bundle = await read(await ask(key, { models }));
      return bundle.ok ? bundle.manifest.files.map(({ path }) => path) : bundle.error;
    };
    expect(await pathsOf(["small"])).toEqual(["license.jws", "models/small-1.0.0"]);
    expect(await pathsOf([])).toEqual(["license.jws"]);
    expect(await pathsOf(null)).toHaveLength(3);
  });

  test("refuses like an export, and wrong models, and changes nothing then", async () => {
    const key = await admin.issue();
    const counted = await admin.issue();
    await setPlaces(admin.database, counted.licenseUuid, { maxMachines: 1 });
    const before = await countExports();
    const restricted = await admin.token({ restriction: { tiers: ["research"] }, scopes: ["keys:issue"] });
    const reader = await admin.token({ scopes: ["keys:read"] });
    const cases = [
      [await ask(await issueSuspended(admin)), 409, "CONFLICT"],
      [await ask(await issueRevoked(admin)), 409, "CONFLICT"],
      [await ask({ id: `key_${"0".repeat(32)}` }), 404, "KEY_NOT_FOUND"],
      [await ask(counted), 400, "INVALID_REQUEST", "fingerprint"],
      [await ask(key, { days: 0 }), 400, "INVALID_REQUEST", "days"],
      [await ask(key, { days: 366 }, restricted), 403, "NOT_ALLOWED"],
      [await ask(key, {}, reader), 403, "SCOPE_REQUIRED"],
      [await ask(key, { models: ["dear"] }), 400, "INVALID_REQUEST", "models"],
      [await ask(key, { models: ["no such"] }), 400, "INVALID_REQUEST", "models.0"],
      [
        await ask(key, { models: Array.from({ length: 1_000 }, () => "small") }),
        400,
        "INVALID_REQUEST",
        "models",
      ],
      [await ask(key, { models: "small" }), 400, "INVALID_REQUEST", "models"],
      [await ask(key, { nonce: "n" }), 400, "INVALID_REQUEST", "nonce"],
    ] as const;
    for (const [answer, status, code, field] of cases) {
      const body = (await answer.json()) as { code: string; details?: { field: string }[] };
      expect([answer.status, body.code, body.details?.[0]?.field]).toEqual([status, code, field]);
    }
    expect(await countExports()).toBe(before);
  });

  test("refuses a model whose bytes are damaged, by the API and the console, before the license is signed", async () => {
    const sha256 = await host("damaged", testBytes(3_000_000, 7));
    const path = pathOfFile(join(admin.dataDir, "models"), sha256);
    const bytes = Buffer.from(testBytes(3_000_000, 7));
    bytes[2_900_000] = 0;
    const key = await admin.issue({ expiresAt: NEVER_EXPIRES });
    await setPlaces(admin.database, key.licenseUuid, { maxMachines: 1 });
    const fields = { fingerprint: "workstation-7", models: ["damaged"] };
    const before = [await countExports(), await countMachines()];
    for (const [content, problem] of [
      [bytes, "damaged"],
      ["short", "changed"],
    ] as const) {
      writeFileSync(path, content);
      const sentence = `Cannot make bundle: the file of damaged 1.0.0 is ${problem} on this host; see \`claviger models verify\``;
      const answer = await ask(key, fields);
      const { code, error } = (await answer.json()) as { code: string; error: string };
      expect([answer.status, code, error]).toEqual([409, "CONFLICT", sentence]);
      const { cookie } = await client.logIn("editor");
      const form = await sendForm(key, cookie, { ...fields, days: "6", models: "damaged" });
      expect([form.status, textsOf(await form.text(), "#bundle .notice")[0]]).toEqual([409, `${sentence}.`]);
      expect([await countExports(), await countMachines()]).toEqual(before);
    }
    await unlist("damaged");
  });

  test("ends too early if a model changes while it is sent, so that nobody takes it for whole", async () => {
    // More than the connection buffers.
    const content = new Uint8Array(40_000_000).fill(3);
    const sha256 = await host("changing", content);
    const answer = await ask(await admin.issue(), { models: ["changing"] });
    expect(answer.status).toBe(200);
    content[39_000_000] = 0;
    writeFileSync(pathOfFile(join(admin.dataDir, "models"), sha256), content);
    const arrived = await read(answer).catch(() => "cut");
    expect(typeof arrived === "object" && arrived.ok).toBe(false);
    expect(admin.logLines.join("")).toContain("A bundle ended too early");
    await unlist("changing");
  });

  test("takes no fingerprint with a blank at an end, which would be another machine", async () => {
    const key = await admin.issue();
    const before = await countExports();
    for (const fingerprint of [" workstation-7", "workstation-7 ", " "]) {
      const answer = await ask(key, { fingerprint, models: [] });
      const { details } = (await answer.json()) as { details: { field: string; error: string }[] };
      expect([answer.status, details]).toEqual([
        400,
        [
          {
            field: "fingerprint",
            error: "fingerprint must be 1 to 200 printable ASCII characters without a blank at either end",
          },
        ],
      ]);
    }
    expect(await countExports()).toBe(before);
  });

  test("makes two at once for one token and four for all, and refuses one more before anything is signed", async () => {
    // More than the connections buffer.
    await host("huge", new Uint8Array(40_000_000).fill(1));
    const key = await admin.issue();
    const tokens = [token, await admin.token(), await admin.token()];
    const held: Response[] = [];
    for (const each of tokens.slice(0, 2))
      for (let n = 0; n < 2; n++) held.push(await ask(key, { models: ["huge"] }, each));
    const before = await countExports();
    for (const each of tokens) {
      const answer = await ask(key, { models: ["huge"] }, each);
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([429, "10"]);
    }
    expect(await countExports()).toBe(before);
    for (const each of held) await each.body?.cancel();
    await unlist("huge");
    admin.clock.advance(1_000);
    for (const deadline = Date.now() + 5_000; Date.now() < deadline; ) {
      const answer = await ask(key, { models: [] });
      if (answer.status === 200) return expect((await read(answer)).ok).toBe(true);
      admin.clock.advance(1_000);
      await Bun.sleep(20);
    }
    throw new Error("A bundle that was abandoned keeps its place");
  });
});

describe("The form of a bundle", () => {
  let cookie: string;
  beforeEach(async () => {
    ({ cookie } = await client.logIn("editor"));
  });
  const send = (key: IssuedKey, form: Record<string, string>) => sendForm(key, cookie, form);

  test("stands beside the export, says until when the license is valid and what is taken, and answers the bundle", async () => {
    const key = await admin.issue({ expiresAt: new Date(admin.clock.nowMs() + 6 * DAY_MS) });
    const { text } = await client.send(`/keys/${key.id}?open=bundle`, { cookie });
    const [form = ""] = textsOf(text, "#bundle form");
    const ends = toDay(new Date(admin.clock.nowMs() + 6 * DAY_MS));
    expect(form).toContain(`With 6 days (the most) the file would be valid until ${ends}`);
    expect(form).toContain("the machine below gets a place until the end of the license in the bundle");
    expect(attributesOf(text, "#bundle-days", "value")).toEqual(["6"]);
    const answer = await send(key, { days: "6", fingerprint: "host 7", models: "small, large" });
    expect(answer.headers.get("content-disposition")).toMatch(
      /^attachment; filename="[\w.+-]+-2026-11-22\.tar"$/,
    );
    const bundle = await read(answer);
    expect(bundle.ok && bundle.manifest.files.map(({ path }) => path)).toEqual([
      "license.jws",
      "models/large-1.0.0.onnx",
      "models/small-1.0.0",
    ]);
    const done = await client.send(`/keys/${key.id}?done=${answer.headers.get("x-request-id")}`, { cookie });
    expect(textsOf(done.text, ".notice.good")[0]).toContain("The file was downloaded. It is valid until");
  });

  test("refuses too many days, a missing machine and a wrong model at their fields, and changes nothing", async () => {
    const key = await admin.issue({ expiresAt: new Date(admin.clock.nowMs() + 6 * DAY_MS) });
    const before = await countExports();
    const errorOf = async (form: Record<string, string>, field: string) => {
      const answer = await send(key, form);
      expect(answer.status).toBe(400);
      return textsOf(await answer.text(), `#bundle-${field}-error`)[0];
    };
    expect(await errorOf({ days: "7" }, "days")).toStartWith("It must be at most 6: the license ends on ");
    expect(await errorOf({ days: "6", models: "dear" }, "models")).toContain(
      "the license may not load dear: the model needs the tier enterprise, and the license has research",
    );
    expect(await errorOf({ days: "6", models: "a b" }, "models")).toStartWith(
      "It must be names of models separated",
    );
    await setPlaces(admin.database, key.licenseUuid, { maxMachines: 1 });
    expect(await errorOf({ days: "6" }, "fingerprint")).toContain("8 to 200 printable ASCII characters");
    expect(await countExports()).toBe(before);
  });

  test("needs a fresh login for more days than the tier has, as the export does", async () => {
    const key = await admin.issue();
    admin.clock.advance(10 * 60_000);
    const answer = await send(key, { days: "30", models: "none" });
    expect([answer.status, textsOf(await answer.text(), "#bundle .notice")[0]]).toEqual([
      403,
      expect.stringContaining("sign a license for more than the 0 offline days of its tier"),
    ]);
  });
});
