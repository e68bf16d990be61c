/** The finding of `doctor` about the connection to an external database. */
import { describe, expect, test } from "bun:test";
import { useTestDatabase } from "../../support/use.ts";
import { examineAll } from "./doctor_kit.ts";

const opened = useTestDatabase();

/** Examines with `address` in the settings only: the connection itself goes to the test's own database. */
const examined = async (address: string | undefined) =>
  (await examineAll(opened, { env: { DATABASE_URL: address } }))("connection");

describe("doctor's connection", () => {
  const remedy = "sslmode=verify-full in DATABASE_URL, and sslrootcert=FILE for an authority of your own";

  test("warns about an external server without sslmode, and with an sslmode that verifies no certificate", async () => {
    for (const query of ["", "?sslmode=disable", "?sslmode=prefer", "?sslmode=require"]) {
      expect(await examined(`postgres://u@db.example.org:5432/c${query}`)).toMatchObject({
        state: "warn",
        message: expect.stringContaining("anyone on the network path can"),
        remedy,
      });
    }
  });

  test("accepts an sslmode that verifies the server, and any server on this machine", async () => {
    for (const query of ["?sslmode=verify-full", "?sslmode=verify-ca", "?sslrootcert=system"]) {
      expect(await examined(`postgres://u@db.example.org/c${query}`)).toMatchObject({ state: "ok" });
    }
    for (const host of ["127.0.0.1", "localhost", "[::1]:5433", "127.3.2.1:5432"]) {
      expect(await examined(`postgres://u@${host}/c`)).toMatchObject({ message: "within this machine" });
    }
    expect(await examined("postgres://u@127.0.0.1,db.example.org/c")).toMatchObject({ state: "warn" });
    expect(await examined("postgres://u@127.evil.example/c")).toMatchObject({ state: "warn" });
  });

  test("gives no finding for the PostgreSQL inside", async () => {
    expect(await examined(undefined)).toBeUndefined();
  });
});
