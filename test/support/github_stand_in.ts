/**
 * Stands in for GitHub: one App with one installation that covers one repository.
 *
 * It checks every request as the real GitHub does (signature, times and issuer of the JWT; headers; the
 * narrowed body) and refuses a wrong one. So a test that gets a token has shown that all of that is right. A test can
 * change at any time what the stand-in does with a right request.
 */
import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock } from "../../src/base/clock.ts";
import type { GitHubAppSettings } from "../../src/models/repository_token/mod.ts";

export type Behaviour =
  | { readonly kind: "grant"; readonly lifeMs?: number; readonly change?: object }
  | { readonly kind: "answer"; readonly status: number; readonly body?: string; readonly headers?: object }
  /** No answer comes, or only the first part of one. */
  | { readonly kind: "stall"; readonly after: "request" | "headers" }
  /** The stand-in closes the connection. */
  | { readonly kind: "cut"; readonly after: "request" | "headers" }
  /** The stand-in sends an answer without an end. */
  | { readonly kind: "flood" };

export interface GitHubStandIn {
  readonly settings: GitHubAppSettings;
  /** The requests to any path, in order. `wrong` says why a request was refused. */
  readonly seen: { readonly path: string; readonly jwt: string; readonly wrong: string | undefined }[];
  /** The tokens that the stand-in gave out, in order. */
  readonly tokens: string[];
  /** How many bytes of an endless answer the client read. */
  readonly flooded: () => number;
  behave(behaviour: Behaviour): void;
  /** Sets how far its clock is ahead of the test's clock, and whether its answers contain its time. */
  setClock(clock: { readonly aheadMs: number; readonly tellsDate: boolean }): void;
  /** Ends the stalled requests and stops the server. */
  close(): Promise<void>;
}

export const HOUR_MS = 3_600_000;

/** One key for all tests, because making a key takes long. */
export const APP_KEYS = generateKeyPairSync("rsa", {
  modulusLength: 2_048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs1", format: "pem" },
});

/**
 * Starts the stand-in on a free port.
 *
 * One long function, because its functions share the behaviour that a test sets, and the record of all requests.
 */
export async function startGitHubStandIn(options: {
  readonly clock: Clock;
  /** The file to write the App's private key to. */
  readonly folder: string;
}): Promise<GitHubStandIn> {
  const { clock, folder } = options;
  const publicKey = createPublicKey(APP_KEYS.publicKey);
  let behaviour: Behaviour = { kind: "grant" };
  let hostClock = { aheadMs: 0, tellsDate: true };
  let flooded = 0;
  const seen: { path: string; jwt: string; wrong: string | undefined }[] = [];
  const tokens: string[] = [];
  const now = () => clock.now().getTime() + hostClock.aheadMs;

  /** Returns the status and the reason of a refusal; undefined for a right request. */
  function judge(request: IncomingMessage, body: string): [status: number, why: string] | undefined {
    if (request.method !== "POST") return [404, "method"];
    if (request.url !== `/api/v3/app/installations/${INSTALLATION}/access_tokens`) return [404, "path"];
    const {
      authorization = "",
      accept,
      "x-github-api-version": version,
      "user-agent": agent,
    } = request.headers;
    if (accept !== "application/vnd.github+json") return [415, "accept"];
    if (version !== "2022-11-28") return [400, "version"];
    if (!agent) return [403, "user agent"];
    if (request.headers["content-type"] !== "application/json") return [415, "content type"];

    const [header = "", claims = "", signature = "", ...rest] = authorization
      .replace(/^Bearer /, "")
      .split(".");
    const isSigned = verify(
      "sha256",
      Buffer.from(`${header}.${claims}`),
      publicKey,
      Buffer.from(signature, "base64url"),
    );
    if (!authorization.startsWith("Bearer ") || rest.length > 0 || !isSigned) return [401, "signature"];
    if (!Bun.deepEquals(fromBase64Url(header), { alg: "RS256", typ: "JWT" })) return [401, "header"];
    const { iat, exp, iss, ...others } = fromBase64Url(claims) as Record<string, unknown>;
    const nowSeconds = Math.floor(now() / 1_000);
    if (iss !== APP_ID || Object.keys(others).length > 0) return [401, "iss"];
    if (!Number.isInteger(iat) || Number(iat) > nowSeconds) return [401, "iat"];
    if (!Number.isInteger(exp) || Number(exp) <= nowSeconds || Number(exp) > nowSeconds + 600)
      return [401, "exp"];

    const wanted = { repositories: [REPOSITORY], permissions: { contents: "read" } };
    return Bun.deepEquals(JSON.parse(body), wanted) ? undefined : [422, "body"];
  }

  function grant(
    response: ServerResponse,
    { lifeMs = HOUR_MS, change = {} }: { lifeMs?: number; change?: object },
  ) {
    // Longer than 40 characters, with dots and dashes: no code may depend on the form of a token.
    const token = `ghs_${APP_ID}_token-${tokens.length + 1}.${crypto.randomUUID().repeat(10)}`;
    tokens.push(token);
    response.writeHead(201, { "Content-Type": "application/json; charset=utf-8" });
    response.end(
      JSON.stringify({
        token,
        expires_at: new Date(now() + lifeMs).toISOString().replace(/\.\d+/, ""),
        permissions: { contents: "read", metadata: "read" },
        repository_selection: "selected",
        repositories: [{ id: 1, name: REPOSITORY, full_name: `octo/${REPOSITORY}`, private: true }],
        ...change,
      }),
    );
  }

  function act(response: ServerResponse): void {
    const open = () => response.writeHead(201, { "Content-Type": "application/json" });
    switch (behaviour.kind) {
      case "grant":
        grant(response, behaviour);
        return;
      case "answer":
        response.writeHead(behaviour.status, { ...behaviour.headers });
        response.end(behaviour.body);
        return;
      case "stall":
        if (behaviour.after === "headers") open().write('{"token":"ghs_half');
        return;
      case "cut":
        if (behaviour.after === "headers") {
          open().write('{"token":"ghs_half', () => response.socket?.destroy());
        } else response.socket?.destroy();
        return;
      case "flood":
        open().write('{"token":"');
        flood(response);
    }
  }

  function flood(response: ServerResponse): void {
    const chunk = "x".repeat(64 * 1024);
    const timer = setInterval(() => {
      if (response.destroyed || response.socket?.destroyed !== false) return clearInterval(timer);
      flooded += chunk.length;
      response.write(chunk);
    }, 1);
    response.on("close", () => clearInterval(timer));
    response.on("error", () => clearInterval(timer));
  }

  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      const jwt = (request.headers.authorization ?? "").replace(/^Bearer /, "");
      const refused = judge(request, body);
      seen.push({ path: request.url ?? "", jwt, wrong: refused?.[1] });
      response.sendDate = false;
      if (hostClock.tellsDate) response.setHeader("Date", new Date(now()).toUTCString());
      if (refused === undefined) return act(response);
      // A host may send any text; this one repeats the request's headers.
      response.writeHead(refused[0]).end(JSON.stringify({ message: `${refused[1]}: ${jwt}` }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const privateKeyFile = `${folder}/app-${port}.pem`;
  writeFileSync(privateKeyFile, APP_KEYS.privateKey, { mode: 0o600 });

  return {
    settings: {
      appId: APP_ID,
      installationId: INSTALLATION,
      repository: REPOSITORY,
      apiUrl: `http://127.0.0.1:${port}/api/v3`,
      privateKeyFile,
    },
    seen,
    tokens,
    flooded: () => flooded,
    behave(next) {
      behaviour = next;
    },
    setClock(next) {
      hostClock = next;
    },
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

const APP_ID = "190219";
const INSTALLATION = "4711";
const REPOSITORY = "core-package";

function fromBase64Url(text: string): unknown {
  return JSON.parse(Buffer.from(text, "base64url").toString("utf8"));
}
