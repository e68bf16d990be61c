/** The upload of a model as a part of the service: a client downloads what a program uploaded. Also runs on Node. */
import { beforeAll, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { readdirSync } from "node:fs";
import { request } from "node:http";
import { issueToken } from "../../src/operators/mod.ts";
import { testBytes } from "../support/hosted.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { until } from "../support/until.ts";
import { useHostingService } from "../support/use.ts";

/** More than sockets and runtimes hold. */
const BYTES = testBytes(24_000_000, 5);
const checksum = { "X-Checksum-SHA256": hash("sha256", BYTES) };

const service = useHostingService({ config: { adminListen: { host: "127.0.0.1", port: 0 } } });
let api: string;
let authorization: string;

beforeAll(async () => {
  api = `${service.service.admin?.url}/admin/v1`;
  const wanted = { name: "ci", scopes: ["models:write"], restriction: {} } as const;
  const by = { brand: service.config.brand, actor: ACTOR, now: service.clock.now() };
  authorization = `Bearer ${orThrow(await issueToken(service.database, wanted, by)).token}`;
});

const addVersion = async (version: string) => {
  const body = JSON.stringify({
    ...{ name: "speller", version, type: "SvcLDA", paradigm: "p300", n_features: 8, n_classes: 2 },
    requires_license: "free",
  });
  const added = await fetch(`${api}/models`, { method: "POST", headers: { authorization }, body });
  expect(added.status).toBe(201);
};
const upload = (version: string) =>
  fetch(`${api}/models/speller/${version}/file`, {
    method: "PUT",
    headers: { authorization, ...checksum },
    body: BYTES,
  });
/** The folder is made with the first upload. */
const unfinished = () =>
  readdirSync(service.dataDir, { recursive: true }).filter((path) => `${path}`.includes("/unfinished-"));

test("A client downloads the bytes that a program uploaded", async () => {
  await addVersion("1.0.0");
  expect((await upload("1.0.0")).status).toBe(200);
  const { apiKey } = await service.issue();
  const path = "/v1/models/download/speller/1.0.0";
  const answer = await fetch(service.url + path, { headers: { "X-API-Key": apiKey } });
  expect(answer.status).toBe(200);
  expect(hash("sha256", new Uint8Array(await answer.arrayBuffer()))).toBe(checksum["X-Checksum-SHA256"]);
});

test("A client that hangs up leaves nothing, and uploads again", async () => {
  await addVersion("2.0.0");
  const headers = { authorization, ...checksum, "Content-Length": BYTES.length };
  const sent = request(`${api}/models/speller/2.0.0/file`, { method: "PUT", headers });
  sent.on("error", () => {});
  sent.write(BYTES.subarray(0, 8_000_000));
  await until(() => unfinished().length === 1, { what: "the upload is in progress" });
  sent.destroy();
  await until(() => unfinished().length === 0, { what: "the unfinished file is deleted" });
  expect((await upload("2.0.0")).status).toBe(200);
});

test("A client whose file is refused before it is read gets the answer", async () => {
  const refused = await upload("9.9.9");
  expect([refused.status, await refused.json()]).toMatchObject([404, { code: "NOT_FOUND" }]);
});
