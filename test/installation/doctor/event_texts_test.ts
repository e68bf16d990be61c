/** The finding of `doctor` and Health about the texts of events that had no room. */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { newUuid, toId } from "../../../src/base/ids.ts";
import { commitEvents } from "../../../src/usage/mod.ts";
import { createTestDatabase } from "../../support/database.ts";
import { MUCH_ROOM, usageEvent } from "../../support/events.ts";
import { issue } from "../../support/issue.ts";
import { useForEach } from "../../support/use.ts";
import { examineAll } from "./doctor_kit.ts";

const target = useForEach(createTestDatabase);

const examineTexts = async (env = {}) => (await examineAll(target, { env }))("event texts");

async function send(bytes: number, licenseUuid: string, textBounds = MUCH_ROOM): Promise<void> {
  const event = usageEvent({
    licenseUuid,
    errorMessage: "x".repeat(bytes),
    receivedAtMs: systemClock.nowMs(),
  });
  await commitEvents(target.database, [event], { processUuid: newUuid(), textBounds, deadlineMs: 10_000 });
}

test("claviger doctor names three of the licenses whose texts are left out, and says since when", async () => {
  const licenses: string[] = [];
  for (let count = 0; count < 4; count++) {
    const { licenseUuid } = await issue(target.database);
    licenses.push(toId("lic", licenseUuid));
    await send(250_000, licenseUuid);
    if (count === 0)
      expect(await examineTexts()).toMatchObject({
        state: "ok",
        message: "0.3 MB stored today (UTC), none left out",
      });
    await send(1, licenseUuid, { ...MUCH_ROOM, licenseBytes: 250_000 });
  }
  const found = await examineTexts();
  expect(found).toMatchObject({
    state: "warn",
    remedy: expect.stringContaining("raise CLAVIGER_EVENT_TEXT_MB_A_DAY if"),
  });
  expect(found?.message).toMatch(
    /^left out since \d{4}-\d\d-\d\d \d\d:\d\d UTC for 4 licenses, beyond 50 MB of texts a day: lic_/,
  );
  expect(found?.message).toEndWith(`: ${licenses.slice(0, 3).join(", ")}, …`);
});

test("claviger doctor warns if the texts of the whole installation have no room", async () => {
  const { licenseUuid } = await issue(target.database);
  await send(1_000_000, licenseUuid);
  await send(1, licenseUuid, { ...MUCH_ROOM, installationBytes: 1_000_000 });
  expect(await examineTexts({ CLAVIGER_EVENT_TEXT_MB_A_DAY_IN_ALL: "1" })).toMatchObject({
    state: "warn",
    message: expect.stringContaining("1 MB stored today (UTC), as much as the installation may"),
    remedy: expect.stringContaining("CLAVIGER_EVENT_TEXT_MB_A_DAY_IN_ALL"),
  });
});
