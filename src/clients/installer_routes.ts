/** The handler of the repository token for the installer. */
import { toTimestamp } from "../base/calendar.ts";
import { isRefusal } from "../base/refusal.ts";
import { reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";

/** Creates the handler that returns the repository token to a valid key. */
export function repoToken({ authenticator, tokens, brand }: HandlerDeps): Handler {
  return async (exchange, body) => {
    const record = await authenticator.authenticate(exchange, "repo_token", body);
    if (isRefusal(record)) return record;
    const token = await tokens.current();
    if (isRefusal(token)) return token;
    return reply({
      success: true,
      [`${brand.installerHost}_token`]: token.token,
      expires_at: token.expiresAt === null ? null : toTimestamp(token.expiresAt),
      message: "Repository token issued: read-only, for the core package alone",
    });
  };
}
