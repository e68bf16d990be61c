/**
 * The generated requests on a service whose repository tokens come from a GitHub App. No place may contain the
 * App's private key, the JWTs signed with it, or the tokens that GitHub issues.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createTestClock } from "../support/clock.ts";
import { APP_KEYS, startGitHubStandIn } from "../support/github_stand_in.ts";
import { testFolder } from "../support/postgres.ts";
import { RUN_BEGIN, type RunOptions, type RunResult, sendGenerated } from "./generated_run.ts";

export async function sendGeneratedWithMinting(
  options: Omit<RunOptions, "service" | "secrets">,
): Promise<RunResult> {
  const clock = createTestClock(RUN_BEGIN);
  const folder = mkdtempSync(join(testFolder(), "minting-"));
  const host = await startGitHubStandIn({ clock, folder });
  try {
    return await sendGenerated({
      ...options,
      service: { clock, config: { gitHubApp: host.settings } },
      secrets: () => [
        { name: "private key", value: APP_KEYS.privateKey },
        ...host.tokens.map((value) => ({ name: "minted token", value })),
        ...host.seen.map(({ jwt }) => ({ name: "JWT", value: jwt.slice(jwt.lastIndexOf(".") + 1) })),
      ],
    });
  } finally {
    await host.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
