import { describe, expect, test } from "bun:test";
import { maskDatabaseUrl, nameOfDatabase, parseDatabaseUrl } from "../../src/database/database_url.ts";

describe("parseDatabaseUrl()", () => {
  test.each([
    ["postgres://db/c", "db 5432"],
    ["postgresql://u:p@10.0.0.1:6432/c?sslmode=require", "10.0.0.1 6432"],
    ["postgres://u@h1:5432,h2:5433/db", "h1 5432, h2 5433"],
    ["postgres://u:a,b%40c@h1,h2,h3:1/db", "h1 5432, h2 5432, h3 1"],
    ["postgres://u@[::1]:5432,[2001:db8::1]/db", "::1 5432, 2001:db8::1 5432"],
  ])("parseDatabaseUrl() finds the servers of %s", (text, servers) => {
    const found = parseDatabaseUrl(text)?.servers.map(({ host, port }) => `${host} ${port}`);
    expect(found?.join(", ")).toBe(servers);
  });

  test.each([
    "",
    "mysql://db/c",
    "postgres:///c",
    "postgres://,db/c",
    "postgres://db,/c",
    "postgres://u@db:x,two/c",
    "postgres://u@db, two/c",
  ])("parseDatabaseUrl() refuses %j", (text) => {
    expect(parseDatabaseUrl(text)).toBeUndefined();
  });

  test("parseDatabaseUrl() returns a separate address for the first server", () => {
    const url = parseDatabaseUrl("postgres://u:p@h1:1,h2:2/db?sslmode=require");
    expect(url?.first.href).toBe("postgres://u:p@h1:1/db?sslmode=require");
  });
});

describe("nameOfDatabase()", () => {
  test.each([
    ["postgres://u:hidden@db/", "db:5432"],
    ["postgres://u:hidden@h1:1,h2/c?password=hidden", "h1:1,h2:5432/c"],
    ["postgres://u:hidden@[::1]/c", "[::1]:5432/c"],
  ])("nameOfDatabase() names servers and database alone: %s", (text, name) => {
    expect(nameOfDatabase(text)).toBe(name);
  });
});

test("maskDatabaseUrl() hides only passwords", () => {
  const url = parseDatabaseUrl("postgres://me:hidden@h1:1,h2/c?sslmode=require&sslpassword=hidden");
  expect(url && maskDatabaseUrl(url, "***")).toBe(
    "postgres://me:***@h1:1,h2/c?sslmode=require&sslpassword=***",
  );
});
