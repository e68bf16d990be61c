/** An OpenID provider that answers what a test wants, also what no honest provider would. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import type { Clock } from "../../src/base/clock.ts";
import { CLIENT } from "./identity_provider.ts";

/** What a test changes in the next answers. */
export interface Forgery {
  readonly claims?: JWTPayload;
  /** Claims that are left out. */
  readonly without?: readonly string[];
  /** How the ID token is signed: by default with the key of the provider. */
  readonly signed?: "by another key" | "with the client secret" | "not at all";
  readonly userinfo?: object;
  /** What the provider announces in place of its own. */
  readonly metadata?: object;
  /** What the answers to one path are instead. */
  readonly instead?: { readonly path: string; answer(response: ServerResponse): void };
}

export interface ForgingProvider {
  readonly issuer: string;
  /** The requests to the token endpoint: their bodies, with the headers that authorize them. */
  readonly exchanges: { readonly body: URLSearchParams; readonly authorization: string | undefined }[];
  /** Every secret text that it gave out. */
  readonly secrets: string[];
  forge(forgery: Forgery): void;
  /** Begins an ID token for the nonce of a login. */
  expect(nonce: string): void;
  close(): Promise<void>;
}

export async function startForgingProvider(_adminUrl: string, clock: Clock): Promise<ForgingProvider> {
  const [own, foreign] = await Promise.all([generateKeyPair("RS256"), generateKeyPair("RS256")]);
  const jwk = { ...(await exportJWK(own.publicKey)), kid: "own", alg: "RS256", use: "sig" };
  const exchanges: ForgingProvider["exchanges"] = [];
  const secrets: string[] = [];
  let forgery: Forgery = {};
  let nonce = "";

  async function signIdToken(): Promise<string> {
    const nowSeconds = Math.floor(clock.nowMs() / 1_000);
    const honest: JWTPayload = {
      iss: issuer,
      sub: "subject-1",
      aud: CLIENT.id,
      iat: nowSeconds,
      exp: nowSeconds + 300,
      auth_time: nowSeconds,
      nonce,
      preferred_username: "mallory",
      groups: ["licensing-admins"],
      ...forgery.claims,
    };
    const claims = Object.fromEntries(
      Object.entries(honest).filter(([name]) => !forgery.without?.includes(name)),
    );
    if (forgery.signed === "not at all") return new UnsecuredJWT(claims).encode();
    if (forgery.signed === "with the client secret")
      return await new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).sign(Buffer.from(CLIENT.secret));
    const { privateKey } = forgery.signed === "by another key" ? foreign : own;
    return await new SignJWT(claims).setProtectedHeader({ alg: "RS256", kid: "own" }).sign(privateKey);
  }

  const answers: Readonly<Record<string, () => Promise<object> | object>> = {
    "/.well-known/openid-configuration": () => ({
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
      userinfo_endpoint: `${issuer}/userinfo`,
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["RS256"],
      authorization_response_iss_parameter_supported: true,
      ...forgery.metadata,
    }),
    "/jwks": () => ({ keys: [jwk] }),
    "/userinfo": () => forgery.userinfo ?? { sub: "subject-1" },
    async "/token"() {
      const [idToken, accessToken] = [await signIdToken(), `access-${crypto.randomUUID()}`];
      secrets.push(idToken, accessToken);
      return { access_token: accessToken, token_type: "Bearer", id_token: idToken, expires_in: 60 };
    },
  };

  const server = createServer(async (request, response) => {
    const path = request.url ?? "";
    if (path === "/token") {
      const body = new URLSearchParams(await new Response(request as never).text());
      exchanges.push({ body, authorization: request.headers.authorization });
    }
    if (forgery.instead?.path === path) return forgery.instead.answer(response);
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify((await answers[path]?.()) ?? {}));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    issuer,
    exchanges,
    secrets,
    forge: (next) => {
      forgery = next;
    },
    expect: (next) => {
      nonce = next;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
