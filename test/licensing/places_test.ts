import { describe, expect, test } from "bun:test";
import { constraintOf } from "../../src/database/mod.ts";
import { describePlaces, MAX_MACHINES, SEAT_MINUTES } from "../../src/licensing/mod.ts";
import { issue } from "../support/issue.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase();

describe("describePlaces()", () => {
  test.each([
    [null, null, "not counted"],
    [1, null, "1 node-locked machine"],
    [1_000, null, "1,000 node-locked machines"],
    [1, 5, "1 floating seat of 5 minutes"],
    [30, 1_440, "30 floating seats of 1,440 minutes"],
    [5, 1_441, "5 node-locked machines that check in within 1,441 minutes"],
    [5, 2_160, "5 node-locked machines that check in within 36 hours"],
    [5, 43_200, "5 node-locked machines that check in within 30 days"],
    [1, 129_600, "1 node-locked machine that checks in within 90 days"],
  ])("describePlaces() says of %j and %j: %s", (maxMachines, seatMinutes, text) => {
    expect(describePlaces({ maxMachines, seatMinutes })).toBe(text);
  });
});

describe("MAX_MACHINES and SEAT_MINUTES", () => {
  /** Returns the constraint that refuses the values; undefined if the database stores them. */
  async function refusing(licenseUuid: string, machines: number | null, minutes: number | null) {
    try {
      await server.database.query(
        (sql) => sql`
          update licenses set max_machines = ${machines}::integer, seat_minutes = ${minutes}::integer
           where id = ${licenseUuid}::uuid`,
      );
      return undefined;
    } catch (error) {
      return constraintOf(error);
    }
  }

  test("allow what the database allows", async () => {
    const { licenseUuid } = await issue(server.database);
    for (const number of [-1, 0, 1, 5, 1_440, 1_000_000, 1_000_001]) {
      const refused = await refusing(licenseUuid, number, null);
      expect({ number, refused }).toEqual({
        number,
        refused: MAX_MACHINES.allows(number) ? undefined : "max_machines_range",
      });
    }
    for (const number of [0, 4, 5, 30, 1_440, 1_441, 129_600, 129_601]) {
      const refused = await refusing(licenseUuid, 1, number);
      expect({ number, refused }).toEqual({
        number,
        refused: SEAT_MINUTES.allows(number) ? undefined : "seat_minutes_range",
      });
    }
    expect(await refusing(licenseUuid, null, 5)).toBe("seats_need_places");
  });
});
