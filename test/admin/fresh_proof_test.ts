/** A change that gives lasting access needs an operator who has just logged in. */
import { expect, test } from "bun:test";
import { action } from "../../src/admin/frame/console/action.ts";
import type { Visit } from "../../src/admin/frame/console/visit.ts";
import { findSession } from "../../src/operators/mod.ts";
import { enter } from "../operators/login.ts";
import { NOW } from "../support/issue.ts";
import { useTestDatabase } from "../support/use.ts";

const FIVE_MINUTES_MS = 300_000;

const server = useTestDatabase();

test("an action that needs a fresh proof is carried out until five minutes after the login, and no later", async () => {
  let times = 0;
  const described = {
    name: "give",
    scope: "admin",
    label: "Give access",
    submit: "Give access",
    Form: () => null,
    entries: {},
    perform: async () => ({ times: ++times }),
  } as const;
  const give = action({ ...described, needsFreshProof: true });
  const { cookieValue } = await enter(server.database, "olga", { role: "admin" });
  const visitAt = async (now: Date) => {
    // Activity is no proof.
    const session = await findSession(server.database, cookieValue, { now, extends: true });
    return { session, now, form: new URLSearchParams() } as Visit;
  };

  const last = await visitAt(new Date(NOW.getTime() + FIVE_MINUTES_MS));
  expect(await give.carryOut({}, last)).toEqual({ times: 1 });
  const late = await visitAt(new Date(NOW.getTime() + FIVE_MINUTES_MS + 1));
  expect(await give.carryOut({}, late)).toMatchObject({
    code: "NOT_ALLOWED",
    sentence: "Only an operator who logged in within the last five minutes may do this; log in again first",
    remedy: { name: "log_in_again", of: "olga" },
  });
  expect(times).toBe(1);
  expect(await action(described).carryOut({}, late)).toEqual({ times: 2 });
});
