import { NETWORK_REASONS, type Reasons, whenNotTrusted } from "../../base/system_error.ts";

/** Thrown if the bucket does not do what was asked. The message names the bucket, and can end a sentence. */
export class BucketFailure extends Error {
  /** True if the same request can succeed a moment later. */
  readonly isPassing: boolean;

  constructor(url: string, why: string, { isPassing = false } = {}) {
    super(`the bucket ${url}: ${why}`);
    this.isPassing = isPassing;
  }
}

const FULL = "it is full; raise its quota, or free some space";

/**
 * What a code of the connection, a code of the protocol or a status means for the operator. Source: Amazon S3 API
 * reference, error responses.
 */
export const REASONS: Reasons = {
  ...NETWORK_REASONS,
  ...whenNotTrusted("its certificate is not trusted; name its authority in CLAVIGER_MODELS_S3_CA_FILE"),
  ERR_SSL_WRONG_VERSION_NUMBER: "it does not speak TLS at this port; correct CLAVIGER_MODELS_S3",
  InvalidAccessKeyId: "it does not know the access key; check the file of the credentials",
  SignatureDoesNotMatch: "the secret key is wrong; check the file of the credentials",
  AuthorizationHeaderMalformed: "the region is wrong; check CLAVIGER_MODELS_S3_REGION",
  NoSuchBucket: "it does not exist; make it, or correct CLAVIGER_MODELS_S3",
  InvalidRange: "its object is cut short",
  RequestTimeTooSkewed: "its clock and the clock of this host differ; set both with a time server",
  QuotaExceeded: FULL,
  301: "it is in another region; check CLAVIGER_MODELS_S3 and CLAVIGER_MODELS_S3_REGION",
  403: "it refuses these credentials; check them and CLAVIGER_MODELS_S3_REGION, and that they may read, write, list and delete",
  507: FULL,
};
