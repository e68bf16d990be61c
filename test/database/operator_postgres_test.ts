/** A data folder that runs with the operator's `postgres` and `initdb` instead of the embedded programs. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { readOperatorVersion } from "../../src/database/embedded/mod.ts";
import { isRoot } from "../support/is_root.ts";
import { sentenceOf } from "../support/issue.ts";
import { hasPostgres183, type OtherPostgres, unpackPostgres183 } from "../support/postgres_programs.ts";
import { cleanUp, makeDataFolder, makeFolder, open, query, start } from "./embedded_test_kit.ts";

const asRoot = isRoot("the operator's own PostgreSQL, run by root");
const INSIDE = bunPlatform.postgresInside()?.version;
const VERSION = "select split_part(current_setting('server_version'), ' ', 1) as version";

afterEach(cleanUp);

describe.if(hasPostgres183)("openEmbedded() with the operator's PostgreSQL 18.3", () => {
  let other: OtherPostgres;
  beforeAll(async () => {
    other = await unpackPostgres183();
  });
  afterAll(() => other?.remove());

  test("runs a folder of the embedded PostgreSQL, which can run it again afterwards", async () => {
    const dataDir = makeDataFolder();
    const seen: unknown[] = [];
    for (const postgresBin of [undefined, other.bin, undefined]) {
      const server = await start(dataDir, { postgresBin });
      await query(server.address, "create table if not exists kept (version text)");
      const [row] = await query(server.address, VERSION);
      await query(server.address, `insert into kept values ('${row?.version}')`);
      seen.push(await query(server.address, "select version from kept"));
      await server.stop(5_000);
    }
    const rows = [INSIDE, "18.3", INSIDE].map((version) => ({ version }));
    expect(seen).toEqual([rows.slice(0, 1), rows.slice(0, 2), rows]);
  });

  test("makes a new folder with its initdb, with the same settings as the embedded initdb", async () => {
    const form = `
      select name, setting from pg_settings
       where name in ('data_checksums', 'server_encoding', 'io_method', 'shared_buffers', 'listen_addresses')
      union all
      select 'locale', concat_ws(' ', datlocprovider, datlocale, datcollate) from pg_database
       where datname = current_database()
       order by 1`;
    const made: unknown[] = [];
    for (const postgresBin of [other.bin, undefined]) {
      const server = await start(makeFolder(), { postgresBin });
      made.push(await query(server.address, form));
    }
    expect(made[0]).toEqual(made[1]);
    expect(made[0]).toContainEqual({ name: "locale", setting: "b C.UTF-8 C" });
    expect(made[0]).toContainEqual({ name: "data_checksums", setting: "on" });
  });

  test.if(asRoot)("is refused to root if other users can change the programs", async () => {
    const refusal = async () => sentenceOf(await open(makeFolder(), { postgresBin: other.bin }));
    chmodSync(other.bin, 0o775);
    expect(await refusal()).toContain(`other users can change ${other.bin}`);
    expect(readOperatorVersion(other.bin)).toBeUndefined();
    chmodSync(other.bin, 0o755);
    const server = join(other.bin, "postgres");
    chownSync(server, 65_534, 65_534);
    expect(await refusal()).toContain(`other users can change ${server}`);
    expect(readOperatorVersion(other.bin)).toBeUndefined();
    chownSync(server, 0, 0);
    chmodSync(server, 0o755);
    expect(readOperatorVersion(other.bin)).toBe("18.3");
    await start(makeDataFolder(), { postgresBin: other.bin });
  });

  test.if(asRoot)("is refused if the cluster's user cannot execute the programs", async () => {
    chmodSync(other.bin, 0o700);
    expect(sentenceOf(await open(makeFolder(), { postgresBin: other.bin }))).toMatch(
      /postgres cannot be run by user claviger, who runs PostgreSQL: EACCES; name the folder/,
    );
    chmodSync(other.bin, 0o755);
  });
});

describe("openEmbedded() with the operator's programs", () => {
  /** Makes a folder with programs that print these texts. */
  function fake(texts: { readonly postgres?: string; readonly initdb?: string }): string {
    const bin = join(makeFolder(), "bin");
    mkdirSync(bin, { mode: 0o755 });
    for (const [name, text] of Object.entries(texts)) {
      writeFileSync(join(bin, name), `#!/bin/sh\necho '${text}'\n`, { mode: 0o755 });
    }
    return bin;
  }
  const RIGHT = { postgres: "postgres (PostgreSQL) 18.6", initdb: "initdb (PostgreSQL) 18.6" };
  const cases: [what: string, bin: () => string, why: string | RegExp][] = [
    ["that are not there", () => "/nonexistent/bin", "there is no such folder; name the folder that holds"],
    ["without a server", () => fake({ initdb: RIGHT.initdb }), "it holds no postgres; name the folder"],
    ["without an initdb", () => fake({ postgres: RIGHT.postgres }), "it holds no initdb; name the folder"],
    [
      "of an older major version",
      () => fake({ ...RIGHT, postgres: "postgres (PostgreSQL) 17.10 (Debian 17.10-1.pgdg13+1)" }),
      /its postgres is of version 17\.10, and this Claviger works with 18 only; install PostgreSQL 18 and name its folder, or leave CLAVIGER_POSTGRES_BIN out to run the 18\.\d+ inside$/,
    ],
    [
      "of a newer major version",
      () => fake({ ...RIGHT, initdb: "initdb (PostgreSQL) 19.0" }),
      "its initdb is of version 19.0, and this Claviger works with 18 only",
    ],
    [
      "that are no release",
      () => fake({ ...RIGHT, postgres: "postgres (PostgreSQL) 18beta1" }),
      'does not say the version of a release: it said "postgres (PostgreSQL) 18beta1"',
    ],
    [
      "that are something else",
      () => fake({ ...RIGHT, postgres: "hello" }),
      'postgres does not say the version of a release: it said "hello"',
    ],
  ];
  for (const [what, bin, why] of cases) {
    test(`refuses programs ${what}`, async () => {
      const postgresBin = bin();
      const sentence = sentenceOf(await open(makeFolder(), { postgresBin }));
      expect(sentence).toStartWith(`Cannot run the PostgreSQL in ${postgresBin}: `);
      expect(sentence).toMatch(why);
    });
  }
});
