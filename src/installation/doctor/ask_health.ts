/** Asks a service for its health, as a load balancer does. Uses `node:` modules: they accept a CA of our own. */
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { connect } from "node:tls";
import * as v from "valibot";
import { codeOf, NETWORK_REASONS, type Reasons, reasonOf, whenNotTrusted } from "../../base/system_error.ts";

export interface HealthAnswer {
  readonly isHealthy: boolean;
  /** Undefined if no server answered. */
  readonly httpStatus?: number;
  /** `connected` or `disconnected`, if the answer says so. */
  readonly database?: string;
  /** The fault, as a phrase; undefined if the service is healthy. */
  readonly error?: string;
  /** True if the certificate is the cause: waiting does not help. */
  readonly isCertificate?: boolean;
}

interface AskOptions {
  /** The certificates to trust, as PEM; by default those of the system. */
  readonly ca?: string;
  /** Accepts any certificate, for calls within one machine that only ask whether a service answers. */
  readonly trustAny?: boolean;
  readonly timeoutMs: number;
}

const PATH = "/api/health";
const ANSWER_LIMIT_BYTES = 64 * 1024;

/** Returns the address of the health endpoint below a service's address. */
export function toHealthUrl(url: URL): URL {
  const asked = new URL(url);
  const path = asked.pathname.replace(/\/+$/, "");
  asked.pathname = path.endsWith(PATH) ? path : `${path}${PATH}`;
  return asked;
}

/** Asks a service for its health once. Never throws: without an answer it resolves to the reason. */
export async function askHealth(url: URL, options: AskOptions): Promise<HealthAnswer> {
  const answer = await ask(url, options);
  return "error" in answer ? { isHealthy: false, ...answer } : toAnswer(answer.httpStatus, answer.text);
}

type HttpAnswer =
  | { readonly httpStatus: number; readonly text: string }
  | { readonly error: string; readonly isCertificate?: boolean };

/** Sends a GET request once. Never throws: without an answer it resolves to the reason. */
export function ask(url: URL, { ca, trustAny = false, timeoutMs }: AskOptions): Promise<HttpAnswer> {
  const isSecure = url.protocol === "https:";
  return new Promise((resolve) => {
    const fail = (error: string) => resolve({ error });
    const failFor = (error: Error) => {
      const reason = certificateReasonOf(error, ca !== undefined);
      if (reason === undefined) fail(reasonOf(error, REASONS));
      else resolve({ error: reason, isCertificate: true });
    };
    const options = { agent: false, rejectUnauthorized: !trustAny, ...(ca !== undefined && { ca }) } as const;
    const asked = (isSecure ? requestHttps : requestHttp)(url, options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
        if (text.length > ANSWER_LIMIT_BYTES) asked.destroy();
      });
      response.on("end", () => resolve({ httpStatus: response.statusCode ?? 0, text }));
      response.on("error", (error) => fail(reasonOf(error, REASONS)));
    });
    const timer = setTimeout(() => {
      fail(`it did not answer within ${timeoutMs / 1_000} s`);
      asked.destroy();
    }, timeoutMs);
    asked.on("error", failFor);
    asked.on("close", () => {
      clearTimeout(timer);
      fail("it closed the connection");
    });
    asked.end();
  });
}

/** Returns the certificate that a service of this machine shows; undefined if none answers with one. */
export function askCertificate(
  url: URL,
  { timeoutMs }: { readonly timeoutMs: number },
): Promise<{ readonly validFrom: Date; readonly expiresAt: Date } | undefined> {
  return new Promise((resolve) => {
    const port = Number(url.port || 443);
    const options = { host: url.hostname.replace(/^\[|\]$/g, ""), port, rejectUnauthorized: false };
    const socket = connect(options, () => {
      const { valid_from, valid_to } = socket.getPeerCertificate();
      resolve({ validFrom: new Date(valid_from), expiresAt: new Date(valid_to) });
      socket.destroy();
    });
    socket.setTimeout(timeoutMs, () => socket.destroy());
    socket.on("error", () => {});
    socket.on("close", () => resolve(undefined));
  });
}

const health = v.pipe(
  v.string(),
  v.parseJson(),
  v.object({ status: v.string(), database: v.string(), error: v.optional(v.string()) }),
);

function toAnswer(httpStatus: number, text: string): HealthAnswer {
  const { success, output } = v.safeParse(health, text);
  if (!success) {
    const error = `another program answers there, not Claviger (${httpStatus})`;
    return { isHealthy: false, httpStatus, error };
  }
  const { status, database, error = `it is ${status}` } = output;
  if (httpStatus === 200 && status === "healthy") return { isHealthy: true, httpStatus, database };
  return { isHealthy: false, httpStatus, database, error };
}

// Bun uses this code in place of ECONNREFUSED.
const REASONS: Reasons = { ...NETWORK_REASONS, ConnectionRefused: NETWORK_REASONS.ECONNREFUSED };

const CERTIFICATE_REASONS: Reasons = {
  CERT_HAS_EXPIRED: "its certificate has expired",
  CERT_NOT_YET_VALID: "its certificate is not valid yet",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
};

/** The issuer is not trusted. The remedy depends on whether --ca was given. */
const NOT_TRUSTED: Reasons = {
  ...whenNotTrusted("its certificate is not trusted; give its root with --ca"),
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is self-signed; give it with --ca",
};

function certificateReasonOf(error: Error, hasCa: boolean): string | undefined {
  const code = codeOf(error) ?? "";
  const untrusted = NOT_TRUSTED[code];
  if (untrusted === undefined) return CERTIFICATE_REASONS[code];
  return hasCa ? "its certificate is not signed by a certificate that --ca names" : untrusted;
}
