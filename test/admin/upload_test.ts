/** Uploads of model files over the API: what is listed, what is refused, and what an upload leaves. */
import { afterEach, describe, expect, test } from "bun:test";
import { createHash, hash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { type ClientRequest, request } from "node:http";
import { join } from "node:path";
import { parseId } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { createFileDirectory, findRegistered, modelsFolderOf, pathOfFile } from "../../src/models/mod.ts";
import { isTooSlow } from "../../src/models/receive_file.ts";
import { deleteEnded } from "../../src/operators/delete_ended.ts";
import {
  endSession,
  listOperators,
  listSessions,
  type Role,
  removeOperator,
  revokeToken,
  setRole,
} from "../../src/operators/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { objectOf, REGION, startBucketStandIn } from "../support/bucket_stand_in.ts";
import { testBytes } from "../support/hosted.ts";
import { ACTOR } from "../support/issue.ts";
import { addNewModel } from "../support/new_model.ts";
import { until } from "../support/until.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { awaitFile, newName } from "./sample_requests.ts";

const BYTES = testBytes(3_000_000, 4);
const SHA256 = hash("sha256", BYTES);

const admin = useAdmin({ uploads: { uploadMaxGb: 0.01 } });

const operators = createConsoleClient(admin);
const BY = () => ({ actor: ACTOR, now: admin.clock.now() });
const roleOf = async (name: string) =>
  (await listOperators(admin.database)).find((each) => each.name === name && each.removedAt === null)?.role;

const begun: ClientRequest[] = [];
afterEach(async () => {
  for (const sent of begun.splice(0)) sent.destroy();
  await until(() => unfinished().length === 0, { what: "no upload is in progress" });
});

const fileOf = (name: string, version = "1.0.0") => `/models/${name}/${version}/file`;
const checksum = { "X-Checksum-SHA256": SHA256 };
const put = (path: string, options: object = {}) =>
  admin.call("PUT", path, { file: BYTES, headers: checksum, ...options });
const codeOf = ({ status, body }: { status: number; body: { code?: string } }) => `${status} ${body.code}`;

function unfinished(): string[] {
  const folder = modelsFolderOf({ dataDir: admin.dataDir });
  return existsSync(folder) ? readdirSync(folder).filter((name) => name.startsWith("unfinished-")) : [];
}

interface Begun {
  readonly sent: ClientRequest;
  readonly answer: Promise<{ readonly status: number; readonly body: { code?: string; error?: string } }>;
}

/** Begins an upload that announces a length, by a new token or by a session. The caller sends the bytes. */
async function begin(
  path: string,
  { on = admin, length = BYTES.length, sha256 = SHA256, token = "", cookie = "" } = {},
): Promise<Begun> {
  const sender = cookie
    ? { cookie, origin: on.url }
    : { authorization: `Bearer ${token || (await on.token())}` };
  const headers = { "X-Checksum-SHA256": sha256, ...sender, "Content-Length": length };
  const sent = request(`${on.url}/${cookie ? "console" : "admin/v1"}${path}`, { method: "PUT", headers });
  begun.push(sent);
  const answer = new Promise<Awaited<Begun["answer"]>>((resolve, reject) => {
    sent.on("error", reject);
    sent.on("response", async (response) => {
      const chunks = await Array.fromAsync(response);
      resolve({ status: response.statusCode ?? 0, body: JSON.parse(Buffer.concat(chunks).toString()) });
    });
  });
  answer.catch(() => {});
  return { sent, answer };
}

/**
 * Begins an upload and waits until its first bytes are on the disk. Begins anew after a 503, since on a busy machine the
 * database may answer too late.
 */
async function untilOnDisk(
  start: () => Promise<Begun>,
  first = BYTES.subarray(0, 1_000_000),
): Promise<Begun> {
  const before = unfinished().length;
  for (;;) {
    const upload = await start();
    upload.sent.write(first);
    let refused: string | undefined;
    upload.answer.then(
      ({ status, body }) => {
        refused = status === 503 ? "late" : `${status} ${body.error}`;
      },
      (error) => {
        refused = String(error);
      },
    );
    await until(() => refused ?? unfinished().length === before + 1, { what: "the upload is in progress" });
    if (refused === undefined) return upload;
    if (refused !== "late") throw new Error(`The upload was refused: ${refused}`);
  }
}

const beginOnDisk = (
  path: string,
  options: { sha256?: string; token?: string; cookie?: string } = {},
): Promise<Begun> => untilOnDisk(() => begin(path, options));

/** Begins the upload of a file that no other test uploads, by a session, or with a token of its own. */
async function beginUnique({ cookie = "", on = admin } = {}) {
  const name = await awaitFile(admin);
  const token = `ci-${name}`;
  const bytes = Buffer.concat([BYTES, Buffer.from(name)]);
  const sha256 = hash("sha256", bytes);
  const options = { on, cookie, length: bytes.length, sha256, token: await on.token({ name: token }) };
  const upload = await untilOnDisk(() => begin(fileOf(name), options), bytes.subarray(0, 1_000_000));
  const finish = () => {
    upload.sent.end(bytes.subarray(1_000_000));
    return upload.answer;
  };
  return { ...upload, name, token, sha256, finish };
}

async function rowsOf(name: string) {
  return await admin.database.query<{ action: string; actor: string; after: object }>(
    (sql) => sql`select action, actor, after from audit where after ->> 'name' = ${name} order by id`,
  );
}

async function expectNothing(name: string): Promise<void> {
  await until(() => unfinished().length === 0, { what: "the unfinished file is deleted" });
  const found = await findRegistered(admin.database, name);
  expect(found).toMatchObject({ model: { listedVersion: null }, versions: [{ awaitsFile: true }] });
}

describe("POST /models without an address", () => {
  const FIELDS = {
    ...{ version: "1.0.0", type: "SvcLDA", paradigm: "p300", n_features: 8, n_classes: 2 },
    requires_license: "free",
  };

  test("makes a version that is neither listed nor found until its file arrives", async () => {
    const name = newName();
    await addNewModel(admin.database, { name, version: "0.9.0" }, { now: admin.clock.now() });
    const added = await admin.call("POST", "/models", { body: { name, ...FIELDS } });
    expect(added).toMatchObject({ status: 201, body: { name, version: "1.0.0", requires_license: "free" } });
    const { body } = await admin.call("GET", `/models/${name}`);
    expect(body).toMatchObject({
      listed_version: "0.9.0",
      versions: [
        { version: "1.0.0", awaits_file: true },
        { version: "0.9.0", awaits_file: false },
      ],
    });
    const directory = createFileDirectory(admin.database, admin.clock);
    const wanted = { name, version: "1.0.0" };
    expect(await directory.find(wanted, "192.0.2.1")).toBeNull();
    expect((await put(`${fileOf(name)}?file_name=speller.onnx`)).status).toBe(200);
    expect(await directory.find(wanted, "192.0.2.1")).toMatchObject({
      sha256: SHA256,
      sizeBytes: BYTES.length,
      fileName: "speller.onnx",
    });
    expect((await findRegistered(admin.database, name))?.model.listedVersion).toBe("1.0.0");
  });

  test("shows the model in the console without a size until its file arrives", async () => {
    const name = newName();
    await admin.call("POST", "/models", { body: { name, ...FIELDS } });
    const client = createConsoleClient(admin);
    const { cookie } = await client.logIn("viewer", "viewer-of-models");
    const readRow = async () =>
      new RegExp(`>${name}<.*?</tr>`, "s").exec((await client.send("/models", { cookie })).text)?.[0] ?? "";
    expect(await readRow()).not.toContain("0 B");
    await put(fileOf(name));
    expect(await readRow()).toContain("3 MB");
  });

  test("refuses an address, a size or a checksum without the others", async () => {
    const all = { url: "https://models.example.org/m", size_mb: 2, checksum: SHA256 };
    for (const field of ["url", "size_mb", "checksum"] as const) {
      const { [field]: one, ...two } = all;
      for (const more of [{ [field]: one }, two]) {
        const refused = await admin.call("POST", "/models", {
          body: { name: newName(), ...FIELDS, ...more },
        });
        expect(codeOf(refused)).toBe("400 INVALID_REQUEST");
        expect(refused.body.error).toContain("need each other");
      }
    }
  });
});

describe("PUT /models/NAME/VERSION/file", () => {
  test("stores the bytes, lists the version, and writes who did it to the audit log", async () => {
    const name = await awaitFile(admin);
    const token = await admin.token({ name: `ci-${name}`, scopes: ["models:write"] });
    expect(await put(fileOf(name), { token })).toMatchObject({
      status: 200,
      body: { name, version: "1.0.0", size_bytes: BYTES.length, checksum: `sha256:${SHA256}` },
    });
    const path = pathOfFile(modelsFolderOf({ dataDir: admin.dataDir }), SHA256);
    expect(readFileSync(path).equals(BYTES)).toBe(true);
    expect(statSync(path).mode & 0o777).toBe(0o640);
    expect(await findRegistered(admin.database, name)).toMatchObject({
      model: { listedVersion: "1.0.0", shown: { sizeMb: 3, isHosted: true, awaitsFile: false } },
    });
    const [, uploaded] = await rowsOf(name);
    expect(uploaded).toEqual({
      action: "model.upload",
      actor: `token:ci-${name}`,
      after: { name, version: "1.0.0", checksum: SHA256 },
    });
  });

  test("refuses If-Match, because a version has no file whose tag it could name, and takes nothing", async () => {
    const name = newName();
    await awaitFile(admin, name);
    for (const tag of ['"x"', `"${SHA256}"`, "*"]) {
      const refused = await put(fileOf(name), { headers: { ...checksum, "If-Match": tag } });
      expect(codeOf(refused)).toBe("412 PRECONDITION_FAILED");
    }
    const { body } = await admin.call("GET", `/models/${name}`);
    expect(body.versions).toMatchObject([{ version: "1.0.0", awaits_file: true }]);
    expect((await put(fileOf(name))).status).toBe(200);
  });

  test("takes the SHA-256 also from Digest, and refuses two that differ", async () => {
    const digest = (bytes: Uint8Array) => `sha-256=${createHash("sha256").update(bytes).digest("base64")}`;
    const name = await awaitFile(admin);
    const other = { ...checksum, Digest: digest(new Uint8Array(1)) };
    expect(codeOf(await put(fileOf(name), { headers: other }))).toBe("400 INVALID_REQUEST");
    const both = { "X-Checksum-SHA256": SHA256.toUpperCase(), Digest: `md5=AAAA, ${digest(BYTES)}` };
    for (const headers of [{ Digest: digest(BYTES) }, both])
      expect((await put(fileOf(name), { headers })).status).toBe(200);
  });

  test("refuses a body without a length or a checksum, and one with another checksum, and leaves nothing", async () => {
    const name = await awaitFile(admin);
    const chunks = new ReadableStream({
      start(controller) {
        controller.enqueue(BYTES);
        controller.close();
      },
    });
    const refused: [options: object, why: string][] = [
      [{ headers: {} }, "X-Checksum-SHA256"],
      [{ headers: { "X-Checksum-SHA256": "12" } }, "X-Checksum-SHA256"],
      [{ file: chunks }, "Content-Length"],
      [{ file: new Uint8Array(0) }, "Content-Length"],
      [{ headers: { "X-Checksum-SHA256": "0".repeat(64) } }, "another SHA-256; upload it again with its own"],
    ];
    for (const [options, why] of refused) {
      const answer = await put(fileOf(name), options);
      expect({ code: codeOf(answer), error: answer.body.error }).toEqual({
        code: "400 INVALID_REQUEST",
        error: expect.stringContaining(why),
      });
      await expectNothing(name);
    }
    expect(existsSync(pathOfFile(modelsFolderOf({ dataDir: admin.dataDir }), "0".repeat(64)))).toBe(false);
    expect((await put(fileOf(name))).status).toBe(200);
  });

  test("writes the bytes while they arrive; an interrupted upload leaves nothing and can be repeated", async () => {
    const name = await awaitFile(admin);
    const { sent } = await beginOnDisk(fileOf(name));
    const path = join(modelsFolderOf({ dataDir: admin.dataDir }), unfinished()[0] ?? "");
    await until(() => statSync(path).size === 1_000_000, {
      what: "the bytes that were sent are on the disk",
    });
    sent.destroy();
    await expectNothing(name);
    expect((await put(fileOf(name))).status).toBe(200);
  });

  test("refuses a part of the announced bytes, even if the part has the announced SHA-256", async () => {
    const name = await awaitFile(admin);
    const sha256 = hash("sha256", BYTES.subarray(0, 1_000_000));
    const { sent } = await beginOnDisk(fileOf(name), { sha256 });
    sent.destroy();
    await expectNothing(name);
    expect(existsSync(pathOfFile(modelsFolderOf({ dataDir: admin.dataDir }), sha256))).toBe(false);
  });

  test("takes the same file again, also to replace a damaged one, and writes no second audit row", async () => {
    const name = await awaitFile(admin);
    for (const _ of [1, 2]) expect((await put(fileOf(name))).status).toBe(200);
    expect((await rowsOf(name)).map(({ action }) => action)).toEqual(["model.add", "model.upload"]);
  });

  test("refuses a file for a version that has another, is at another address, is retired, or does not exist", async () => {
    const [taken, elsewhere, retired] = [await awaitFile(admin), newName(), await awaitFile(admin)];
    await addNewModel(admin.database, { name: elsewhere }, { now: admin.clock.now() });
    await admin.call("POST", `/models/${retired}/1.0.0/retire`, { body: {} });
    await put(fileOf(taken));
    const other = testBytes(10, 1);
    const wrong = { file: other, headers: { "X-Checksum-SHA256": hash("sha256", other) } };
    for (const [path, code, why] of [
      [fileOf(taken), "409 CONFLICT", "another file"],
      [fileOf(elsewhere), "409 CONFLICT", "or address"],
      [fileOf(retired), "409 CONFLICT", "is retired"],
      [fileOf(taken, "9.9.9"), "404 NOT_FOUND", "there is no"],
    ] as const) {
      const refused = await put(path, wrong);
      expect({ code: codeOf(refused), error: refused.body.error }).toEqual({
        code,
        error: expect.stringContaining(why),
      });
    }
    expect(
      existsSync(pathOfFile(modelsFolderOf({ dataDir: admin.dataDir }), wrong.headers["X-Checksum-SHA256"])),
    ).toBe(false);
  });

  test("lets the first of two different files that arrive at once win, and refuses the second", async () => {
    const name = await awaitFile(admin);
    const { sent, answer } = await beginOnDisk(fileOf(name));
    const other = testBytes(10, 2);
    const headers = { "X-Checksum-SHA256": hash("sha256", other) };
    expect((await put(fileOf(name), { file: other, headers })).status).toBe(200);
    sent.end(BYTES.subarray(1_000_000));
    expect(codeOf(await answer)).toBe("409 CONFLICT");
    expect((await rowsOf(name)).map(({ action }) => action)).toEqual(["model.add", "model.upload"]);
  });

  test("leaves nothing of a file whose version is retired while it arrives", async () => {
    const { name, sha256, finish } = await beginUnique();
    await admin.call("POST", `/models/${name}/1.0.0/retire`, { body: {} });
    expect(codeOf(await finish())).toBe("409 CONFLICT");
    expect(existsSync(pathOfFile(modelsFolderOf({ dataDir: admin.dataDir }), sha256))).toBe(false);
  });

  test("refuses the file of a token that is revoked while it arrives, and leaves nothing", async () => {
    const { name, sha256, token, finish } = await beginUnique();
    const by = { actor: ACTOR, now: admin.clock.now() };
    expect(isRefusal(await revokeToken(admin.database, token, by))).toBe(false);
    expect(codeOf(await finish())).toBe("401 INVALID_TOKEN");
    await expectNothing(name);
    expect(existsSync(pathOfFile(modelsFolderOf({ dataDir: admin.dataDir }), sha256))).toBe(false);
  });

  test.each<[how: string, lose: (who: { name: string; cookie: string }) => Promise<unknown>]>([
    ["is removed", ({ name }) => removeOperator(admin.database, name, BY())],
    ["becomes a viewer", ({ name }) => setRole(admin.database, { name, role: "viewer" }, BY())],
    ["logs out", ({ cookie }) => operators.send("/logout", { cookie, form: {} })],
    [
      "is logged out by an admin",
      async ({ name }) => {
        const [session] = (await listSessions(admin.database, BY())).filter((each) => each.operator === name);
        await endSession(admin.database, session?.id ?? "", BY());
      },
    ],
  ])("refuses the file of an operator who %s while it arrives, and leaves nothing", async (_, lose) => {
    const who = await operators.logIn("editor");
    const { name, sha256, finish } = await beginUnique(who);
    await lose(who);
    expect(await operators.isLoggedIn(who.cookie)).toBe((await roleOf(who.name)) === "viewer");
    const answer = await finish();
    expect(codeOf(answer)).toBe("403 NOT_ALLOWED");
    expect(answer.body.error).toContain("you were logged out or removed, or your role has changed");
    await expectNothing(name);
    expect(existsSync(pathOfFile(modelsFolderOf({ dataDir: admin.dataDir }), sha256))).toBe(false);
  });

  test("takes the file of an operator who gets another role with the right, and whose session times out while it arrives", async () => {
    const who = await operators.logIn("editor");
    const { finish } = await beginUnique(who);
    await setRole(admin.database, { name: who.name, role: "admin" }, BY());
    await admin.database.query(
      (sql) => sql`
        update operator_sessions set last_seen_at = last_seen_at - interval '13 hours',
               created_at = created_at - interval '13 hours' where operator = ${who.name}`,
    );
    expect(await operators.isLoggedIn(who.cookie)).toBe(false);
    await deleteEnded({ database: admin.database, clock: admin.clock, isStopping: () => false });
    expect((await finish()).status).toBe(200);
  });

  test("refuses a file for whose version the token has no scope any more", async () => {
    const { name, token, finish } = await beginUnique();
    await admin.database.query(
      (sql) => sql`update tokens set scopes = array['models:read'] where name = ${token}`,
    );
    expect(codeOf(await finish())).toBe("401 INVALID_TOKEN");
    await expectNothing(name);
  });

  test("refuses a name of the file that is sent twice or is none, by token and by session", async () => {
    const name = newName();
    await awaitFile(admin, name);
    const { cookie } = await operators.logIn();
    for (const query of ["file_name=a&file_name=b", "file_name=..%2Fa", "colour=red"]) {
      const path = `${fileOf(name)}?${query}`;
      expect(codeOf(await put(path))).toBe("400 INVALID_REQUEST");
      const sent = await operators.send(path, { method: "PUT", cookie, file: "weights", headers: checksum });
      expect({ query, status: sent.status, text: sent.text }).toEqual({
        ...{ query, status: 400 },
        text: expect.stringContaining("INVALID_REQUEST"),
      });
    }
  });

  test("refuses a file of more than 1 GB by session, before it reads it, also where larger files may be uploaded", async () => {
    const large = await startAdmin({
      on: admin.testDatabase,
      clock: admin.clock,
      uploads: { uploadMaxGb: 10 },
    });
    try {
      const { cookie } = await createConsoleClient(large).logIn("editor", newName());
      const path = fileOf(await awaitFile(large));
      const { answer, sent } = await begin(path, { on: large, length: 1e9 + 1, cookie });
      sent.flushHeaders();
      const refused = await answer;
      expect(codeOf(refused)).toBe("413 PAYLOAD_TOO_LARGE");
      expect(refused.body.error).toContain("the console takes at most 1 GB");
    } finally {
      await large.close();
    }
  });

  test("ends an upload after four hours, however fast it is", () => {
    const hour = 3_600_000;
    const bytes = 4 * hour * 100;
    expect([4 * hour, 4 * hour + 1].map((tookMs) => isTooSlow({ bytes, tookMs }))).toEqual([false, true]);
    expect(isTooSlow({ bytes: 1e12, tookMs: 4 * hour + 1 })).toBe(true);
  });

  test("gives one token or operator two of the four places", async () => {
    const name = await awaitFile(admin);
    const token = await admin.token();
    const who = await operators.logIn("editor");
    const again = await operators.logIn("editor", who.name);
    for (const each of [token, token]) await beginOnDisk(fileOf(name), { token: each });
    const third = await put(fileOf(name), { token });
    expect(codeOf(third)).toBe("429 RATE_LIMIT_EXCEEDED");
    expect(third.headers.get("retry-after")).toBe("10");
    expect(third.body.error).toContain("You upload 2 files already");
    // Two sessions of one operator share.
    await beginOnDisk(fileOf(name), { cookie: who.cookie });
    expect((await put(fileOf(name))).status).toBe(200);
    await beginOnDisk(fileOf(name), { cookie: again.cookie });
    expect(codeOf(await put(fileOf(name)))).toBe("429 RATE_LIMIT_EXCEEDED");
  });

  test("ends an upload that brings less than 100 kB a second", async () => {
    const { name, sent, answer } = await beginUnique();
    admin.clock.advance(100_000);
    // One after another, because a busy machine may keep a single byte back.
    const more = setInterval(() => sent.write("x"), 100);
    const { status, body } = await answer.finally(() => clearInterval(more));
    expect({ status, error: body.error }).toEqual({
      status: 400,
      error: expect.stringContaining("too slowly"),
    });
    await expectNothing(name);
  });

  test("refuses a fifth upload, and takes it when another has ended", async () => {
    const name = await awaitFile(admin);
    const uploads: Begun[] = [];
    for (const _ of [1, 2, 3, 4]) uploads.push(await beginOnDisk(fileOf(name)));
    const refused = await put(fileOf(name));
    expect(codeOf(refused)).toBe("429 RATE_LIMIT_EXCEEDED");
    expect(refused.headers.get("retry-after")).toBe("10");
    uploads[0]?.sent.destroy();
    const isTaken = async () => (await put(fileOf(name))).status === 200;
    await until(isTaken, { what: "another upload is taken" });
  });

  test("refuses a file for which the disk has no room, before it reads it", async () => {
    const uploads = { uploadMaxGb: 9_000_000 };
    const large = await startAdmin({ on: admin.testDatabase, clock: admin.clock, uploads });
    try {
      const { answer, sent } = await begin(fileOf(await awaitFile(large)), { on: large, length: 8e15 });
      sent.flushHeaders();
      expect(codeOf(await answer)).toBe("503 SERVICE_UNAVAILABLE");
    } finally {
      await large.close();
    }
  });

  test("says that no uploads are allowed where the setting is 0", async () => {
    const none = await startAdmin({
      on: admin.testDatabase,
      clock: admin.clock,
      uploads: { uploadMaxGb: 0 },
    });
    try {
      const refused = await none.call("PUT", fileOf(await awaitFile(none)), { file: "x", headers: checksum });
      expect(codeOf(refused)).toBe("413 PAYLOAD_TOO_LARGE");
      expect(refused.body.error).toBe("Cannot upload file: CLAVIGER_UPLOAD_MAX_GB allows no uploads");
    } finally {
      await none.close();
    }
  });

  test("is refused while clients have no address to download from", async () => {
    const options = { on: admin.testDatabase, clock: admin.clock, admin: { publicUrl: undefined } };
    const closed = await startAdmin(options);
    try {
      const refused = await closed.call("PUT", fileOf(await awaitFile(closed)), {
        file: "x",
        headers: checksum,
      });
      expect(codeOf(refused)).toBe("409 CONFLICT");
      expect(refused.body.error).toContain("CLAVIGER_PUBLIC_URL");
      // The console says so before anybody chooses a file.
      const pages = ["/models/_add", `/models/${await awaitFile(closed)}`];
      const showAt = async (at: typeof admin, role: Role) => {
        const operators = createConsoleClient(at);
        const { cookie } = await operators.logIn(role, newName());
        const shown = await Promise.all(pages.map((path) => operators.send(path, { cookie })));
        return shown.map(({ text }) =>
          text.includes("The service takes no model file yet: clients need an address"),
        );
      };
      expect(await showAt(closed, "editor")).toEqual([true, true]);
      expect(await showAt(closed, "viewer")).toEqual([false, false]);
      expect(await showAt(admin, "editor")).toEqual([false, false]);
    } finally {
      await closed.close();
    }
  });
});

describe("PUT /models/{name}/{version}/file, where several hosts serve", () => {
  test("does not list the version of an operator who is removed while the file goes to the bucket", async () => {
    const bucket = await startBucketStandIn();
    const credentialsFile = join(admin.dataDir, "credentials");
    writeFileSync(credentialsFile, bucket.credentials);
    const modelsBucket = { url: bucket.url, region: REGION, credentialsFile, caFile: undefined };
    const uploads = { uploadMaxGb: 0.01, modelsBucket, dataDir: admin.dataDir };
    const on = await startAdmin({ on: admin.testDatabase, clock: admin.clock, uploads });
    try {
      const who = await createConsoleClient(on).logIn("editor", newName());
      const { name, finish } = await beginUnique({ ...who, on });
      bucket.delayMs = 100;
      const answer = finish();
      await until(() => bucket.requests.length > 0);
      await removeOperator(admin.database, who.name, BY());
      bucket.delayMs = 0;
      expect(codeOf(await answer)).toBe("403 NOT_ALLOWED");
      await expectNothing(name);
    } finally {
      await on.close();
      await bucket.close();
    }
  });

  test("lists the version after the file is in the bucket, and not while the bucket is gone", async () => {
    const bucket = await startBucketStandIn();
    const credentialsFile = join(admin.dataDir, "credentials");
    writeFileSync(credentialsFile, bucket.credentials);
    const modelsBucket = { url: bucket.url, region: REGION, credentialsFile, caFile: undefined };
    const uploads = { uploadMaxGb: 0.01, modelsBucket };
    const on = await startAdmin({ on: admin.testDatabase, clock: admin.clock, uploads });
    try {
      const name = await awaitFile(admin);
      await bucket.goAway();
      const refused = await on.call("PUT", fileOf(name), { file: BYTES, headers: checksum });
      await bucket.comeBack();
      expect(codeOf(refused)).toBe("503 SERVICE_UNAVAILABLE");
      expect(refused.body.error).toBe(`Cannot upload file: the bucket ${bucket.url}: nothing listens there`);
      await expectNothing(name);
      expect((await on.call("PUT", fileOf(name), { file: BYTES, headers: checksum })).status).toBe(200);
      expect(bucket.objects.get(objectOf(SHA256))?.bytes.equals(BYTES)).toBe(true);
      expect((await findRegistered(admin.database, name))?.model.listedVersion).toBe("1.0.0");
    } finally {
      await on.close();
      await bucket.close();
    }
  });

  test("refuses a file that is larger than the cache before it reads it", async () => {
    const credentialsFile = join(admin.dataDir, "credentials");
    writeFileSync(credentialsFile, "aws_access_key_id=A\naws_secret_access_key=B\n");
    const modelsBucket = { url: "http://127.0.0.1:1/b", region: REGION, credentialsFile, caFile: undefined };
    const uploads = { uploadMaxGb: 0.01, modelsBucket, modelsCacheBytes: BYTES.length - 1 };
    const on = await startAdmin({ on: admin.testDatabase, clock: admin.clock, uploads });
    try {
      const { answer, sent } = await begin(fileOf(await awaitFile(admin)), { on });
      sent.flushHeaders();
      const { status, body } = await answer;
      expect({ status, error: body.error }).toEqual({
        status: 400,
        error: expect.stringContaining("raise CLAVIGER_MODELS_CACHE_GB"),
      });
    } finally {
      await on.close();
    }
  });

  test("refuses a file that another host would not find", async () => {
    const name = await awaitFile(admin);
    await admin.database.query(
      (sql) => sql`
        insert into processes (id, version, host, address, seen_at)
        values (gen_random_uuid(), '0.4.0', 'host-b', 'https://0.0.0.0:8443', now())`,
    );
    const refused = await put(fileOf(name));
    await admin.database.query((sql) => sql`delete from processes where host = 'host-b'`);
    expect(codeOf(refused)).toBe("409 CONFLICT");
    expect(refused.body.error).toContain("the host host-b also serves this database");
    await expectNothing(name);
    expect((await put(fileOf(name))).status).toBe(200);
  });
});

test("a version that the console adds has the owner and the facts of the version that is shown", async () => {
  const { userId } = await admin.issue({ email: "owner@example.org" });
  const name = newName();
  const old = { name, requiresLicense: "commercial", ownerUuid: parseId("usr", userId) };
  await addNewModel(admin.database, old, { now: admin.clock.now() });
  const { cookie } = await operators.logIn("editor");
  const form = { version: "1.1.0" };
  expect(await operators.send(`/models/${name}/add-version`, { cookie, form })).toMatchObject({
    status: 303,
  });
  const found = await findRegistered(admin.database, name);
  expect(found?.model).toMatchObject({ owner: { id: userId }, listedVersion: "1.0.0" });
  const [added, shown] = found?.versions ?? [];
  const differing = {
    version: "1.1.0",
    sizeMb: 0,
    isHosted: true,
    awaitsFile: true,
    createdAt: added?.createdAt,
  };
  expect(added).toEqual({ ...shown, ...differing } as typeof added);
});
