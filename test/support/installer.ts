/** Sets the installer token of a test's service. */
import { setInstallerToken } from "../../src/models/repository_token/mod.ts";
import { openSecrets } from "./secrets.ts";
import type { TestService } from "./service.ts";

export const INSTALLER_TOKEN = "read_only_token_for_tests";

/** Stores the token as an operator does; by default it does not expire. */
export async function setToken(service: TestService, expiresAt: Date | null = null): Promise<void> {
  const refused = await setInstallerToken(
    service.database,
    { token: INSTALLER_TOKEN, expiresAt },
    {
      secrets: openSecrets(),
      actor: { kind: "command", name: "test" },
      now: service.clock.now(),
    },
  );
  if (refused !== undefined) throw new Error(refused.sentence);
}
