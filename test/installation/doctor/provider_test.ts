/** What doctor says about the identity provider. */
import { expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { type Config, readConfig } from "../../../src/installation/config/mod.ts";
import { examineProvider } from "../../../src/installation/doctor/examine_provider.ts";
import { settingsFor, startIdentityProvider } from "../../support/identity_provider.ts";
import { orThrow } from "../../support/issue.ts";
import { useForAll } from "../../support/use.ts";

const ADMIN_URL = "http://127.0.0.1:8081";
const provider = useForAll(() => startIdentityProvider(ADMIN_URL));

const base = orThrow(readConfig({ env: {}, workingFolder: "/srv/app", isRoot: false, envFile: "/dev/null" }));
const examine = (changed: Partial<NonNullable<Config["provider"]>> = {}) => {
  const settings = { ...settingsFor(ADMIN_URL, provider.issuer), ...changed };
  const adminListen = { host: "127.0.0.1", port: 8081 };
  return examineProvider({ config: { ...base, adminListen, provider: settings }, clock: systemClock });
};

test("asks the provider, and says which addresses it must allow", async () => {
  expect(await examine()).toEqual({
    state: "ok",
    message:
      "Example Staff answers; it must allow http://127.0.0.1:8081/console/callback, and " +
      "http://127.0.0.1:8081/console/enter?done=logged-out after the logout; a login asks for the scopes " +
      "openid profile groups, and reads the claim groups; only a login tries the client's id and secret",
  });
  const message = expect.stringContaining("for the scopes openid email, and reads the claim cognito:groups;");
  expect(await examine({ groupsClaim: "cognito:groups", scopes: "openid email" })).toMatchObject({ message });
});

test("says that nobody logs in at a provider without its settings", async () => {
  expect(await examineProvider({ config: base, clock: systemClock })).toEqual({
    state: "ok",
    message: "by links of commands alone",
  });
});

test("warns of a provider that does not answer, or is another one", async () => {
  expect(await examine({ issuer: "http://127.0.0.1:1" })).toMatchObject({
    state: "warn",
    message: "Example Staff does not answer: nothing listens there; a link by command still works",
  });
  const unheard = { ...base, provider: settingsFor(ADMIN_URL, provider.issuer) };
  expect(await examineProvider({ config: unheard, clock: systemClock })).toMatchObject({
    state: "warn",
    remedy: "set CLAVIGER_ADMIN_LISTEN",
  });
  expect(await examine({ issuer: `${provider.issuer}/other` })).toMatchObject({
    state: "warn",
    message: expect.stringContaining("is no OpenID provider with the issuer"),
  });
  expect(await examine({ issuer: `${provider.issuer}/` })).toMatchObject({ state: "ok" });
});

test("fails without the secret of the client, and with a file that is none", async () => {
  expect(await examine({ secretFile: undefined })).toMatchObject({ state: "fail" });
  expect(await examine({ secretFile: "/nowhere" })).toMatchObject({
    state: "fail",
    message: "The identity provider Example Staff cannot be asked: /nowhere: there is no such file",
  });
  const empty = { secretFile: "/dev/null" };
  expect(await examine(empty)).toMatchObject({ state: "fail" });
  expect(await examine({ caFile: "/nowhere.pem" })).toMatchObject({ state: "fail" });
});
