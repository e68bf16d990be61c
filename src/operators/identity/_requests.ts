/** What the provider is asked with: the files of this host, and requests with bounds. */
import type { CustomFetchOptions } from "openid-client";
import { CERTIFICATES_LIMIT_BYTES, readRegularFile } from "../../base/read_regular_file.ts";
import { requestBounded } from "../../base/request_bounded.ts";
import {
  NAMED_FILE_REASONS,
  NETWORK_REASONS,
  type Reasons,
  reasonOf,
  whenNotTrusted,
} from "../../base/system_error.ts";
import type { ProviderSettings } from "./provider_settings.ts";

/** A step of a login takes at most this long, with all its requests. */
export const LIMIT_MS = 5_000;
const ANSWER_LIMIT_BYTES = 1024 * 1024;
const SECRET_LIMIT_BYTES = 4_096;

/** Thrown for a fault that concerns every login. The message follows the name of the provider. */
export class ProviderFailure extends Error {
  /** The message for those who may know paths of this host; strangers open the page of the login. */
  readonly inFull: string;

  constructor(message: string, inFull = message) {
    super(message);
    this.inFull = inFull;
  }
}

const REASONS: Reasons = {
  ...NETWORK_REASONS,
  ...whenNotTrusted("its certificate is not trusted; name its authority in CLAVIGER_OIDC_CA_FILE"),
  CERT_HAS_EXPIRED: "its certificate has expired",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
};

/** Reads the secret of the client and the authorities, at each login, because both can be replaced. */
export function readFiles({ secretFile, caFile }: ProviderSettings) {
  const fail = (why: string) =>
    new ProviderFailure("cannot be asked: see the log of the service", `cannot be asked: ${why}`);
  const read = (path: string, limitBytes: number) => {
    try {
      return readRegularFile(path, limitBytes).trim();
    } catch (error) {
      throw fail(`${path}: ${reasonOf(error, NAMED_FILE_REASONS)}`);
    }
  };
  if (secretFile === undefined) throw fail("CLAVIGER_OIDC_CLIENT_SECRET_FILE is missing");
  const secret = read(secretFile, SECRET_LIMIT_BYTES);
  if (secret === "") throw fail(`${secretFile}: it is empty`);
  return { secret, ca: caFile && read(caFile, CERTIFICATES_LIMIT_BYTES) };
}

/** Sends a request of the library, with bounds of time and size. */
export async function fetchBounded(
  url: string,
  { method, headers, body }: CustomFetchOptions,
  { ca, limit }: { readonly ca: string | undefined; readonly limit: AbortSignal },
): Promise<Response> {
  const bytes = Buffer.from(body ? String(body) : "");
  try {
    const bounds = { ca, signal: limit, limitBytes: ANSWER_LIMIT_BYTES };
    const answer = await requestBounded(url, { method, headers, body: bytes, ...bounds });
    if (answer.status >= 500) throw new Error(`it answered with the status ${answer.status}`);
    const text = Object.entries(answer.headers).map(([name, value]): [string, string] => [name, `${value}`]);
    return new Response(new Uint8Array(answer.body), { status: answer.status, headers: text });
  } catch (error) {
    const why = limit.aborted ? `not within ${LIMIT_MS / 1_000} s` : reasonOf(error, REASONS);
    throw new ProviderFailure(`does not answer: ${why}`);
  }
}

/** Finds our own error among the causes of one of the library. */
export function failureIn(error: unknown): ProviderFailure | undefined {
  if (error instanceof ProviderFailure) return error;
  return error instanceof Error ? failureIn(error.cause) : undefined;
}
