/** Asks a service how it is, as a balancer does: by `node:` modules, which take one's own certificate. */
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { codeOf, NETWORK_REASONS, type Reasons, reasonOf } from "../system_error.ts";

export interface HealthAnswer {
  readonly isHealthy: boolean;
  /** Undefined where nobody answered. */
  readonly httpStatus?: number;
  /** `connected` or `disconnected`, where the answer says so. */
  readonly database?: string;
  /** What is wrong; undefined where nothing is. */
  readonly error?: string;
  /** True where it is the certificate, which waiting does not mend. */
  readonly isCertificate?: boolean;
}

export interface AskOptions {
  /** The certificates to trust, as PEM; the system's by default. */
  readonly ca?: string;
  /** Whether any certificate will do: for asking on the machine itself whether somebody answers. */
  readonly trustAny?: boolean;
  readonly timeoutMs: number;
}

const PATH = "/api/health";
const ANSWER_LIMIT_BYTES = 64 * 1024;

/** The address of a service's health below its own: what to ask. */
export function toHealthUrl(url: URL): URL {
  const asked = new URL(url);
  const path = asked.pathname.replace(/\/+$/, "");
  asked.pathname = path.endsWith(PATH) ? path : `${path}${PATH}`;
  return asked;
}

/** Asks once. Never throws: that nobody answers is an answer. */
export function askHealth(url: URL, { ca, trustAny = false, timeoutMs }: AskOptions): Promise<HealthAnswer> {
  const isSecure = url.protocol === "https:";
  return new Promise((resolve) => {
    const fail = (error: string) => resolve({ isHealthy: false, error });
    const failFor = (error: Error) => {
      const reason = certificateReasonOf(error, ca !== undefined);
      if (reason === undefined) fail(reasonOf(error, REASONS));
      else resolve({ isHealthy: false, error: reason, isCertificate: true });
    };
    const options = { agent: false, rejectUnauthorized: !trustAny, ...(ca !== undefined && { ca }) } as const;
    const asked = (isSecure ? requestHttps : requestHttp)(url, options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
        if (text.length > ANSWER_LIMIT_BYTES) asked.destroy();
      });
      response.on("end", () => resolve(toAnswer(response.statusCode ?? 0, text)));
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

function toAnswer(httpStatus: number, text: string): HealthAnswer {
  const body = parse(text);
  const isService = typeof body.status === "string" && typeof body.database === "string";
  if (!isService)
    return { isHealthy: false, httpStatus, error: `what answers there is no Claviger (${httpStatus})` };
  const database = String(body.database);
  if (httpStatus === 200 && body.status === "healthy") return { isHealthy: true, httpStatus, database };
  return { isHealthy: false, httpStatus, database, error: String(body.error ?? `it is ${body.status}`) };
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

// Bun has a code of its own.
const REASONS: Reasons = { ...NETWORK_REASONS, ConnectionRefused: NETWORK_REASONS.ECONNREFUSED };

const CERTIFICATE_REASONS: Reasons = {
  CERT_HAS_EXPIRED: "its certificate has expired",
  CERT_NOT_YET_VALID: "its certificate is not valid yet",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
};

/** By whom it is signed is not trusted: what to do depends on whether certificates were given. */
const NOT_TRUSTED: Reasons = {
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is signed by itself; give it with --ca",
  SELF_SIGNED_CERT_IN_CHAIN: "its certificate's root is not trusted; give it with --ca",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "its certificate is not trusted; give its root with --ca",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "its certificate is not trusted; give its root with --ca",
};

function certificateReasonOf(error: Error, hasCa: boolean): string | undefined {
  const code = codeOf(error) ?? "";
  const untrusted = NOT_TRUSTED[code];
  if (untrusted === undefined) return CERTIFICATE_REASONS[code];
  return hasCa ? "its certificate is not signed by one of those that --ca names" : untrusted;
}
