/** Starts the OpenID provider of `identity_provider_process.ts`, with a console whose operators log in there. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../src/base/clock.ts";
import { createLog } from "../../src/base/log.ts";
import { openProvider, type ProviderSettings } from "../../src/operators/identity/mod.ts";
import { startAdmin, type TestAdmin } from "./admin.ts";
import { createTestClock, type TestClock } from "./clock.ts";
import { findFreePort } from "./find_free_port.ts";
import { orThrow } from "./issue.ts";
import { testFolder } from "./postgres.ts";

export interface Person {
  /** Identifies the person at the provider. */
  readonly subject: string;
  readonly name: string;
  readonly groups: readonly string[];
}

export const CLIENT = { id: "claviger", secret: "a secret that only the provider and the service know" };

export const GROUPS = [
  { role: "admin", group: "licensing-admins" },
  { role: "editor", group: "support" },
  { role: "viewer", group: "sales" },
] as const;

export interface TestProvider {
  readonly issuer: string;
  /** Replaces the people, by the names that they type on the page of the provider. */
  setPeople(people: Readonly<Record<string, Person>>): void;
  close(): Promise<void>;
}

/** Starts a provider that leads back to the console at `adminUrl`. */
export async function startIdentityProvider(adminUrl: string): Promise<TestProvider> {
  const file = join(mkdtempSync(join(testFolder(), "people-")), "people.json");
  writeFileSync(file, "{}");
  const port = await findFreePort();
  const script = join(import.meta.dir, "identity_provider_process.ts");
  const child = Bun.spawn([process.execPath, script, `${port}`, adminUrl, file], {
    stdout: "pipe",
    stderr: "ignore",
  });
  const { value } = await child.stdout.getReader().read();
  if (!new TextDecoder().decode(value).startsWith("listens")) throw new Error("The provider does not listen");
  return {
    issuer: `http://127.0.0.1:${port}`,
    setPeople: (people) => writeFileSync(file, JSON.stringify(people)),
    async close() {
      child.kill();
      await child.exited;
    },
  };
}

/** Returns the settings for a provider. */
export function settingsFor(adminUrl: string, issuer: string): ProviderSettings {
  const secretFile = join(mkdtempSync(join(testFolder(), "oidc-")), "secret");
  writeFileSync(secretFile, `${CLIENT.secret}\n`, { mode: 0o600 });
  const clientId = CLIENT.id;
  return {
    issuer,
    clientId,
    secretFile,
    caFile: undefined,
    name: "Example Staff",
    roles: GROUPS,
    groupsClaim: "groups",
    scopes: undefined,
    adminUrl,
  };
}

/** Starts a console whose operators log in at a provider, by default at that of {@linkcode startIdentityProvider}. */
export async function startConsoleWithProvider<Provider extends Startable = TestProvider>(
  start: (adminUrl: string, clock: Clock) => Promise<Provider> = startIdentityProvider as never,
  {
    host = "127.0.0.1",
    clock = createTestClock(),
  }: { readonly host?: string; readonly clock?: TestClock } = {},
): Promise<ConsoleWithProvider<Provider>> {
  const port = await findFreePort();
  const adminUrl = `http://${host}:${port}`;
  const provider = await start(adminUrl, clock);
  const logLines: string[] = [];
  const log = createLog({ format: "json", clock, write: (line) => void logLines.push(line) });
  const settings = settingsFor(adminUrl, provider.issuer);
  const opened = orThrow(openProvider(settings, { clock, log }));
  const options = { clock, admin: { adminUrl, log, provider: opened } };
  const admin = await startAdmin({ ...options, port });
  return {
    ...admin,
    adminUrl,
    settings,
    logLines,
    provider,
    startReplica: () => startAdmin({ ...options, on: admin.testDatabase }),
    async close() {
      await provider.close();
      await admin.close();
    },
  };
}

export interface ConsoleWithProvider<Provider> extends TestAdmin {
  /** The origin of the console. */
  readonly adminUrl: string;
  readonly settings: ProviderSettings;
  readonly provider: Provider;
  /** Starts another console behind the same origin, on the same database. */
  startReplica(): Promise<TestAdmin>;
}

interface Startable {
  readonly issuer: string;
  close(): Promise<void>;
}
