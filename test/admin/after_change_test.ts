/** Changes that are made, but whose result the database does not return in time. */
import { describe, expect, test } from "bun:test";
import { toId } from "../../src/base/ids.ts";
import { openSession } from "../../src/database/mod.ts";
import { useAdmin } from "../support/use.ts";
import { stopWaiting } from "./stop_waiting.ts";

const admin = useAdmin();

describe("A change whose result cannot be read in time", () => {
  test("is not reported as if nothing was changed", async () => {
    const key = await admin.issue();
    const license = `/licenses/${toId("lic", key.licenseUuid)}`;
    const token = await admin.token();
    const session = openSession(admin.testDatabase.address, { statementTimeoutMs: 30_000 });
    try {
      await session.connect();
      for (const [method, path, body] of [
        ["POST", `/keys/${key.id}/suspend`, {}],
        ["PATCH", license, { monthly_limit: 7 }],
      ] as const) {
        // No change reads the counts of use, but every answer has them.
        await session.sql`begin`;
        await session.sql`lock table usage in access exclusive mode`;
        const answer = admin.call(method, path, { token, body });
        await stopWaiting(session);
        const { status, body: refusal } = await answer;
        expect({ path, status, code: refusal.code }).toEqual({
          path,
          status: 503,
          code: "SERVICE_UNAVAILABLE",
        });
        expect(refusal.error).toStartWith("The change was made, but");
        await session.sql`rollback`;
      }
    } finally {
      await session.close();
    }
    expect(admin.forgotten).toEqual([key.licenseUuid, key.licenseUuid]);
    expect((await admin.call("GET", `/keys/${key.id}`)).body).toMatchObject({
      state: "suspended",
      monthly_limit: 7,
    });
  });
});
