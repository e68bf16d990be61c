/** The search finds secrets that are present. Otherwise a search without a result would show nothing. */
import { describe, expect, test } from "bun:test";
import { generateApiKey } from "../../src/licensing/keys/mod.ts";
import { APP_KEYS } from "../support/github_stand_in.ts";
import { INSTALLER_TOKEN } from "../support/installer.ts";
import { BRAND } from "../support/issue.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { useTestDatabase } from "../support/use.ts";
import { searchProcesses, searchTables } from "./places.ts";
import { createSecretSearch } from "./secret_search.ts";

const key = generateApiKey(BRAND, "live").apiKey;
const signature = "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYm_";
const search = createSecretSearch();
search.add([
  { name: "key", value: key },
  { name: "token", value: INSTALLER_TOKEN },
  { name: "root", value: TEST_SECRET },
  { name: "root bytes", value: Buffer.from(TEST_SECRET, "hex").toString("base64") },
  { name: "signature", value: signature },
  { name: "private key", value: APP_KEYS.privateKey },
]);
const found = (text: string) => search.find(text).map((each) => each.split(" in …")[0]);

describe("The search", () => {
  for (const [what, text, name] of [
    ["a key", `{"path":"/${key}"}`, "key"],
    ["a key without its prefix", key.slice(9), "key"],
    ["a key in capitals", key.toUpperCase(), "key"],
    ["a key within a longer run", `xx${key}00yy`, "key"],
    ["a key as base64", Buffer.from(key).toString("base64"), "key"],
    ["a key as base64 before something else", Buffer.from(`${key} and more`).toString("base64"), "key"],
    ["a key as hexadecimal", `\\x${Buffer.from(key).toString("hex")}`, "key"],
    [
      "a key of which one digit is encoded",
      key.replace(/.$/, (last) => `%${last.charCodeAt(0).toString(16)}`),
      "key",
    ],
    [
      "a key that is encoded twice",
      key.replace("_", "%255F").replace(/.$/, (last) => `%25${last.charCodeAt(0).toString(16)}`),
      "key",
    ],
    ["the token", `token=${INSTALLER_TOKEN};`, "token"],
    ["the token as base64", Buffer.from(INSTALLER_TOKEN).toString("base64"), "token"],
    ["the root secret", `secret ${TEST_SECRET.toUpperCase()}`, "root"],
    ["the root secret's bytes as base64", Buffer.from(TEST_SECRET, "hex").toString("base64"), "root bytes"],
    [
      "the root secret's bytes as base64url",
      Buffer.from(TEST_SECRET, "hex").toString("base64url"),
      "root bytes",
    ],
    ["a signature", `&signature=${signature}&`, "signature"],
    ["a line of the private key", APP_KEYS.privateKey.split("\n")[7] ?? "", "private key"],
  ] as const) {
    test(`finds ${what}`, () => expect(found(`before ${text} after`)).toContain(name));
  }

  test("finds nothing in a text without a secret", () => {
    const line = `{"request":"req_${"0123456789abcdef".repeat(2)}","path":"/v1/models/list?api_key=[hidden]"}`;
    expect(found(line + key.slice(0, 40) + generateApiKey(BRAND, "live").apiKey)).toEqual([]);
  });
});

describe("The search", () => {
  const server = useTestDatabase();

  test("reads every row of every table", async () => {
    await server.database.query(
      (sql) => sql`
        insert into audit (at, actor, action, reason)
        select now(), 'command test', 'key.issue', case when n = 15000 then ${key} end
          from generate_series(1, 20000) n`,
    );
    const { found: places, searched } = await searchTables(server.database, search);
    expect(searched).toBeGreaterThanOrEqual(20_000);
    expect(places).toHaveLength(1);
    expect(places[0]).toStartWith("table audit: key in …");
  });

  test("reads the command line of every process, and the environment of its own process's descendants", async () => {
    const child = Bun.spawn(["sleep", "10"], { env: { ANY: INSTALLER_TOKEN }, argv0: key });
    const shell = Bun.spawn(["sh", "-c", "sleep 10; exit"], {
      env: { PATH: "/usr/bin:/bin", ANY: TEST_SECRET },
    });
    try {
      // A child shows the command line of this process until it runs its own program.
      await Bun.sleep(50);
      const places = searchProcesses(search).found.join("\n");
      expect(places).toContain(`/proc/${child.pid}/cmdline: key in …`);
      expect(places).toContain(`/proc/${child.pid}/environ: token in …`);
      expect(places).toContain(`/proc/${shell.pid}/environ: root in …`);
    } finally {
      child.kill();
      shell.kill();
    }
  });
});
