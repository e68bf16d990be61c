import { describe, expect, test } from "bun:test";
import { type Database, DatabaseUnavailable } from "../../src/database/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";

function cacheOf(database: Pick<Database, "query">) {
  const forgotten: string[] = [];
  const changes = createLicenseChanges(database as Database, {
    forgetLicense: (uuid) => void forgotten.push(uuid),
    forgetAll: () => void forgotten.push("all"),
  });
  return { changes, forgotten };
}

const fails = (error: Error) => ({ query: () => Promise.reject(error) });
const statement = () => ({}) as never;

describe("createLicenseChanges()", () => {
  test("change() makes the cache forget every changed license before it returns", async () => {
    const rows = [{ licenseUuid: "first" }, { licenseUuid: "second" }];
    const { changes, forgotten } = cacheOf({ query: async () => rows as never });
    expect(await changes.change(statement)).toEqual(rows);
    expect(forgotten).toEqual(["first", "second"]);
  });

  test("change() makes the cache forget everything if the outcome is unknown", async () => {
    const { changes, forgotten } = cacheOf(fails(new DatabaseUnavailable("deadline")));
    expect(await changes.change(statement).catch((error) => error)).toBeInstanceOf(DatabaseUnavailable);
    expect(forgotten).toEqual(["all"]);
  });

  test("change() makes the cache forget only the license that the caller names", async () => {
    const { changes, forgotten } = cacheOf(fails(new DatabaseUnavailable("deadline")));
    await changes.change(statement, { licenseUuid: "named" }).catch(() => {});
    expect(forgotten).toEqual(["named"]);
  });

  test("change() leaves the cache as it is if the server refused the statement", async () => {
    const { changes, forgotten } = cacheOf(fails(new Error("duplicate key value")));
    await changes.change(statement).catch(() => {});
    expect(forgotten).toEqual([]);
  });
});
