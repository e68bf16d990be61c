/** Requests that are repeated because the service was killed between the commit and the answer. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { findKey, hashApiKey } from "../../src/licensing/keys/mod.ts";
import { countRows } from "../support/issue.ts";
import { useAdmin } from "../support/use.ts";
import { newIdempotencyKey } from "./sample_requests.ts";

const admin = useAdmin();

/** Sends a request to a process that is killed after the commit; the request gets no answer. */
async function sendInVain(path: string, request: RequestInit): Promise<void> {
  const script = join(import.meta.dir, "dies_after_commit.ts");
  const child = Bun.spawn([process.execPath, script, JSON.stringify(admin.testDatabase.address)], {
    stdout: "pipe",
    stderr: "inherit",
  });
  try {
    const { value } = await child.stdout.getReader().read();
    const url = new TextDecoder().decode(value).trim();
    const answered = await fetch(`${url}/admin/v1${path}`, request).then(
      ({ status }) => status,
      () => undefined,
    );
    expect(answered).toBeUndefined();
    await child.exited;
    expect(child.signalCode).toBe("SIGKILL");
  } finally {
    child.kill("SIGKILL");
  }
}

describe("a kill -9 between the commit and the answer", () => {
  const paths: [name: string, path: () => Promise<string>, body: object][] = [
    [
      "POST /admin/v1/keys",
      async () => "/keys",
      { email: "ada@example.org", tier: "free", external_id: "killed-1" },
    ],
    ["POST /admin/v1/keys/{id}/rotate", async () => `/keys/${(await admin.issue()).id}/rotate`, {}],
  ];
  for (const [name, path, body] of paths) {
    test(`leaves one key, and the repeated ${name} answers with that key`, async () => {
      const token = await admin.token();
      const [to, headers] = [await path(), newIdempotencyKey()];
      const { keys = 0 } = await countRows(admin.database);
      const authorized = { ...headers, authorization: `Bearer ${token}` };
      await sendInVain(to, { method: "POST", headers: authorized, body: JSON.stringify(body) });
      const after = await countRows(admin.database);
      expect(after.keys).toBe(keys + 1);
      const again = await admin.call("POST", to, { token, headers, body });
      expect(again.status).toBe(201);
      expect(await countRows(admin.database)).toEqual(after);
      const hash = hashApiKey(again.body.api_key);
      expect(await findKey(admin.database, { hash }, { now: admin.clock.now() })).toMatchObject({
        id: again.body.id,
      });
      expect((await admin.call("POST", to, { token, headers, body })).body).toEqual(again.body);
    });
  }
});
