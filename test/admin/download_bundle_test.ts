/** What ends a download of a bundle while its models are read, before its license is signed. */
import { beforeAll, expect, test } from "bun:test";
import { createBundlesInFlight, downloadBundle } from "../../src/admin/keys/download_bundle.ts";
import type { Right } from "../../src/audit/mod.ts";
import type { Clock } from "../../src/base/clock.ts";
import { createLog } from "../../src/base/log.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { findKey } from "../../src/licensing/keys/mod.ts";
import { createBundleKit } from "../models/bundles/bundle_kit.ts";
import { createTestClock } from "../support/clock.ts";
import { ACTOR, NOW } from "../support/issue.ts";
import { useForAll } from "../support/use.ts";

const kit = useForAll(createBundleKit);
const HELD: Right = {
  holds: (sql) => sql`true`,
  lost: { code: "INVALID_TOKEN", why: "the token was revoked" },
};

beforeAll(() => kit.host({ name: "wave" }, new Uint8Array(5_000_000)));

/** Asks for a bundle; returns the refusal, and how many licenses were exported for it. */
async function download({
  clock = createTestClock(),
  right = HELD,
  signal = new AbortController().signal,
}: {
  readonly clock?: Clock;
  readonly right?: Right;
  readonly signal?: AbortSignal;
}) {
  const keyUuid = await kit.issueUuid();
  const key = await findKey(kit.database, { uuid: keyUuid }, { now: NOW });
  if (key === undefined) throw new Error("There is no such key");
  const before = await kit.countExports();
  const answer = await downloadBundle(
    { keyUuid, key, days: 30, actor: ACTOR, now: NOW },
    {
      options: {
        ...{ clock, database: kit.database, modelsPlace: kit.place, licenseSigner: kit.signer },
        ...{
          bundlesInFlight: createBundlesInFlight(),
          log: createLog({ format: "json", clock, write() {} }),
        },
      },
      ...{ actor: ACTOR, right },
      request: new Request("http://localhost", { signal }),
    },
  );
  const after = await kit.countExports();
  const exported = (after.exports ?? 0) - (before.exports ?? 0);
  if (isRefusal(answer)) return [answer.code, answer.sentence, exported];
  await answer.body?.cancel();
  return [answer.status, undefined, exported];
}

test("downloadBundle() signs the license after the models were read", async () => {
  expect(await download({})).toEqual([200, undefined, 1]);
});

test("downloadBundle() refuses models that take 20 seconds, because the connection is silent meanwhile", async () => {
  const steady = createTestClock();
  let passedMs = 0;
  // Each look at the clock takes four seconds, as on a very slow disk.
  const slow = { ...steady, monotonicMs: () => steady.monotonicMs() + 4_000 * passedMs++ };
  expect(await download({ clock: slow })).toEqual([
    "SERVICE_UNAVAILABLE",
    "Cannot make bundle: its models could not be read within 20 seconds; name fewer models, or use `claviger bundle make`",
    0,
  ]);
});

test("downloadBundle() signs nothing for a client that has left, or that has lost its right, meanwhile", async () => {
  const leaving = new AbortController();
  const left = download({ signal: leaving.signal });
  leaving.abort();
  expect(await left).toEqual(["SERVICE_UNAVAILABLE", "Cannot make bundle: its client has disconnected", 0]);
  expect(await download({ right: { ...HELD, holds: (sql) => sql`false` } })).toEqual([
    "INVALID_TOKEN",
    "Cannot make bundle: the token was revoked",
    0,
  ]);
});
