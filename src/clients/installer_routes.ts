/** The repository token for the installer. */
import { toTimestamp } from "../base/calendar.ts";
import { isRefusal } from "../base/refusal.ts";
import type { Brand } from "../licensing/mod.ts";
import { reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import { type EndpointOperation, jsonBody, type Operations, WITH_BODY, WITH_GOOD_KEY } from "./operation.ts";

/** What the requests for the token do: GET and POST answer the same. */
export function repoTokenOperations({ installerHost }: Brand): Operations {
  const get: EndpointOperation = {
    id: "getRepositoryToken",
    summary: "Get the read-only token of the package repository",
    codes: [...WITH_GOOD_KEY, "NOT_CONFIGURED"],
    success: {
      schema: "RepositoryToken",
      description: "The token",
      example: {
        success: true,
        [`${installerHost}_token`]: "<token>",
        expires_at: null,
        message: "Repository token issued: read-only, for the core package alone",
      },
    },
  };
  const post = {
    ...get,
    id: "postForRepositoryToken",
    request: jsonBody("KeyRequest", {}),
    codes: [...get.codes, ...WITH_BODY],
  };
  return { get, post };
}

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
