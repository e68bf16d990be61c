import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createCommandLine } from "../../cli/command_line.ts";
import { APP_KEYS } from "../../support/github_stand_in.ts";

const APP = {
  CLAVIGER_GITHUB_APP_ID: "190219",
  CLAVIGER_GITHUB_INSTALLATION_ID: "4711",
  CLAVIGER_GITHUB_REPOSITORY: "core-package",
  // No server listens here: the host is first called when a client asks for a token.
  CLAVIGER_GITHUB_URL: "http://127.0.0.1:9/api/v3",
};

test("serve refuses a GitHub App without its key before it creates a database", async () => {
  using line = createCommandLine();
  const ended = await line.here(["serve", "--port", "0"], { env: APP });
  expect(ended).toMatchObject({ status: 78, out: "" });
  expect(ended.err).toContain("CLAVIGER_GITHUB_PRIVATE_KEY_FILE is missing");
  expect(existsSync(join(line.dataDir, "postgres"))).toBe(false);
});

test("installer set-token says that its token is not used if a GitHub App is set", async () => {
  using line = createCommandLine();
  const key = line.write("app.pem", APP_KEYS.privateKey);
  const service = await line.serve([], { env: { ...APP, CLAVIGER_GITHUB_PRIVATE_KEY_FILE: key } });
  // The command runs without the key: only the service gets it, as a credential.
  const set = await line.here(["installer", "set-token"], { input: "rpo_secret\n", env: APP });
  expect(set).toEqual({
    status: 0,
    out: "The repository token is set\n",
    err: "The token is not used: the settings name a GitHub App, and installers get that App's tokens\n",
  });
  expect(await service.stop()).toMatchObject({ status: 0 });
});
