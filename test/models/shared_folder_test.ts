/** The files of models when several hosts serve one database, each with its own view of the folder. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { refusalOf } from "../cli/command_line.ts";
import { useCommandLine } from "../cli/use_command_line.ts";
import { createExternalDatabase } from "../support/external_database.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { until } from "../support/until.ts";
import { useForAll } from "../support/use.ts";
import { addArgs, BYTES, PUBLIC, SHA256 } from "./model_stage.ts";

const server = useForAll(createExternalDatabase);
const line = useCommandLine();
const shared = join(line.folder, "shared");
const file = join(line.folder, "m.onnx");
writeFileSync(file, BYTES);

const own = () => ({ ...PUBLIC, DATABASE_URL: server.url, CLAVIGER_SECRET: TEST_SECRET });
const withShared = () => ({ ...own(), CLAVIGER_MODELS_DIR: shared });
let count = 0;
const add = (env: Readonly<Record<string, string>>) =>
  line.here(addArgs({ name: `m${++count}`, file }), { env });
const markOf = (host: string) => join(shared, ".hosts", host);

beforeAll(async () => {
  expect((await line.here(["migrate"], { env: own() })).status).toBe(0);
});
beforeEach(async () => {
  rmSync(shared, { recursive: true, force: true });
  await server.database.query((sql) => sql`delete from processes`);
});

describe("claviger models add --file, with CLAVIGER_MODELS_DIR", () => {
  test("refuses a folder that is missing on this host, and does not make it", async () => {
    expect(refusalOf(await add(withShared()))).toBe(
      `Cannot store the file: the folder ${shared} is missing on this host; mount it, or correct CLAVIGER_MODELS_DIR`,
    );
    expect(existsSync(shared)).toBe(false);
  });

  test("stores the file in that folder, and the service sends it from there", async () => {
    mkdirSync(shared);
    expect((await add(withShared())).err).toBe("");
    expect(readdirSync(join(shared, SHA256.slice(0, 2)))).toEqual([SHA256]);
    await using service = await line.serve([], { env: withShared() });
    const issued = await line.json(["keys", "issue", "--email", "a@example.org", "--tier", "research"], {
      env: withShared(),
    });
    const answer = await fetch(`${service.url}/v1/models/download/m${count}/1.0.0`, {
      headers: { "X-API-Key": issued.api_key },
    });
    expect(answer.status).toBe(200);
    expect(Buffer.from(await answer.arrayBuffer()).equals(BYTES)).toBe(true);
    // The service has left its mark.
    await until(() => existsSync(markOf(hostname())));
    // The mark is no stray file.
    const verified = await line.here(["models", "verify"], { env: withShared() });
    expect([verified.status, verified.err]).toEqual([0, ""]);
  });
});

describe("claviger models add --file, while another host serves", () => {
  beforeEach(async () => {
    await server.database.query(
      (sql) => sql`
        insert into processes (id, version, host, address, seen_at)
        values (gen_random_uuid(), '0.4.0', 'host-b', 'https://0.0.0.0:8443', now()),
               (gen_random_uuid(), '0.4.0', 'host-lost', 'https://0.0.0.0:8443', now() - interval '10 minutes')`,
    );
  });

  test("refuses a file that the other host would not find, and stores nothing", async () => {
    rmSync(line.dataDir, { recursive: true, force: true });
    mkdirSync(shared);
    for (const [env, folder] of [
      [own(), join(line.dataDir, "models")],
      [withShared(), shared],
    ] as const) {
      expect(refusalOf(await add(env))).toBe(
        `Cannot store the file: the host host-b also serves this database, and would not find a file in ${folder}; set ` +
          "CLAVIGER_MODELS_DIR to a folder that all hosts share, and restart their services; if that host may only " +
          `read the folder, create ${join(folder, ".hosts", "host-b")} there`,
      );
    }
    expect(existsSync(join(line.dataDir, "models"))).toBe(false);
  });

  test("stores the file when the other host has left its mark in the folder", async () => {
    mkdirSync(join(shared, ".hosts"), { recursive: true });
    writeFileSync(markOf("host-b"), "");
    expect((await add(withShared())).status).toBe(0);
  });
});
