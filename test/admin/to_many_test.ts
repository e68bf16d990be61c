/** An action that can be done to many things at once does the same to each of them with one form. */
import { expect, test } from "bun:test";
import { CONSOLE_ROUTES } from "../../src/admin/things.ts";
import { listAudit } from "../../src/audit/mod.ts";
import { useAdmin } from "../support/use.ts";
import { ACTIONS } from "./console_actions.ts";
import { createConsoleClient } from "./console_client.ts";
import { makeVisit } from "./sample_visits.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);

const TO_MANY = ACTIONS.filter(({ toMany }) => toMany);

test("these actions can be done to many things at once", () => {
  expect(TO_MANY.map(({ path }) => path)).toEqual([
    "/keys/:id/resume",
    "/keys/:id/renew",
    "/keys/:id/license",
    "/keys/:id/tier",
    "/keys/:id/limit",
    "/keys/:id/machines",
    "/keys/:id/offline",
    "/keys/:id/updates",
    "/keys/:id/features",
    "/keys/:id/values",
    "/keys/:id/suspend",
    "/keys/:id/revoke",
    "/licenses/:id/renew",
    "/licenses/:id/tier",
    "/licenses/:id/limit",
    "/licenses/:id/machines",
    "/licenses/:id/offline",
    "/licenses/:id/updates",
    "/licenses/:id/features",
    "/licenses/:id/values",
    "/models/:name/remove",
    "/access/operators/:name/role",
  ]);
  const forms = CONSOLE_ROUTES.filter(({ method }) => method === "POST").map(({ path }) => path);
  const many = [
    "",
    ".csv",
    "/suspend",
    "/resume",
    "/renew",
    "/tier",
    "/limit",
    "/machines",
    "/offline",
    "/updates",
    "/features",
    "/values",
    "/revoke",
  ];
  const others = [
    ...many.map((action) => `/keys/many${action}`),
    "/keys/issue",
    "/machines/many",
    "/machines/many/release",
    "/usage/reports",
    "/usage/reports/import",
    "/models/_add",
    "/access/sessions/:id/end",
    "/logout",
    "/search",
  ];
  expect([...ACTIONS.map(({ path }) => path), ...others].toSorted()).toEqual(forms.toSorted());
});

for (const { name, path, isDownload } of TO_MANY) {
  test(`one form of ${path} changes two things, each with a row of its own and the same reason`, async () => {
    const { cookie } = await client.logIn();
    const visits = [
      await makeVisit(admin, { method: "POST", path }),
      await makeVisit(admin, { method: "POST", path }),
    ];
    const reason = `for all: ${path}`;
    for (const visit of visits) {
      // Only the text that names one thing differs.
      const repeat = visit.form?.repeat;
      const form = { ...visits[0]?.form, ...(repeat !== undefined && { repeat }), reason };
      const { status, location } = await client.send(visit.path, { cookie, form });
      const page = visit.path.replace(`/${name}`, "");
      expect({ status, location }).toEqual(
        isDownload
          ? { status: 200, location: null }
          : {
              status: 303,
              location: expect.stringMatching(new RegExp(`^/console${page}\\?done=req_[0-9a-f]+$`)),
            },
      );
    }
    const rows = (await listAudit(admin.database)).filter((row) => row.reason === reason);
    expect(rows).toHaveLength(2);
    for (const { before, after } of rows) expect(after).not.toEqual(before);
    const changed = new Set(rows.map(({ keyId, after }) => JSON.stringify({ keyId, after })));
    expect(changed.size).toBe(2);
  });
}
