/**
 * The table of all settings: name, default, allowed values and meaning. `find_setting.ts` reads a value by it, and the
 * manual's page of settings and the page of man(1) are written from it.
 */

import { matching, oneOf, wholeNumber } from "../../base/rule.ts";
import { OIDC_GROUPS_CLAIM, OIDC_ROLES, OIDC_SCOPES } from "../../operators/identity/mod.ts";
import {
  ADMIN_URL,
  API_URL,
  anyText,
  BUCKET_URL,
  DATABASE_URL,
  ISSUER_URL,
  LOG_REQUESTS,
  listenAddress,
  MODEL_TYPES,
  NOTICE_DAYS,
  NOTICE_SHARES,
  OFFLINE_DAYS,
  PUBLIC_URL,
  type SettingRule,
  TRUSTED_PROXIES,
  USUAL_OFFLINE_DAYS,
} from "./setting_rules.ts";

interface Description {
  /** Absent or empty if there is no default, or if `meaning` explains it. */
  readonly default?: string;
  readonly meaning: string;
}

/** In the order of the manual. */
const TABLE = {
  DATABASE_URL: {
    ...DATABASE_URL,
    meaning:
      "your own PostgreSQL, 15 or newer; several servers as host1:5432,host2:5432; without this setting the PostgreSQL inside is used",
  },
  CLAVIGER_HOST: {
    default: "127.0.0.1",
    ...matching(/^[A-Za-z0-9.:_%-]{1,255}$/, "an address or host name to listen on"),
    meaning: "the address that the service listens on",
  },
  CLAVIGER_PORT: {
    default: "8080",
    ...wholeNumber(0, 65_535),
    meaning: "the port that the service listens on; 0 lets the system choose",
  },
  CLAVIGER_PUBLIC_URL: {
    ...PUBLIC_URL,
    meaning:
      "the start of the download addresses of hosted model files; a path in it is a prefix that a proxy removes",
  },
  CLAVIGER_TLS_CERT: {
    ...anyText("a file with a certificate and its chain (PEM)"),
    meaning:
      "the certificate for https; a systemd credential named claviger-tls-cert also works; SIGHUP reads it again",
  },
  CLAVIGER_TLS_KEY: {
    ...anyText("a file with the key of the certificate (PEM, without a passphrase)"),
    meaning: "the certificate's key; a systemd credential named claviger-tls-key also works",
  },
  CLAVIGER_STOP_GRACE: {
    default: "1",
    ...matching(/^([0-2](\.\d{1,3})?|3(\.0{1,3})?)$/, "a number of seconds from 0 to 3"),
    meaning:
      "how many seconds after SIGTERM the service still takes requests while health answers 503, so that a load balancer can stop sending; Ctrl-C stops without this delay",
  },
  CLAVIGER_DATA_DIR: {
    ...anyText("a folder"),
    meaning:
      "the data folder; without this setting $STATE_DIRECTORY, for a command else the StateDirectory= of the service's unit, else /var/lib/claviger for root or if it exists, else ./claviger-data",
  },
  CLAVIGER_MODELS_DIR: {
    ...anyText("a folder"),
    meaning:
      "the folder of hosted model files, on a mount that all hosts share; it must exist; without this setting the folder models in the data folder",
  },
  CLAVIGER_MODELS_S3: {
    ...BUCKET_URL,
    meaning:
      "the bucket of hosted model files, on a server that speaks the protocol of Amazon S3, for several hosts; the folder of model files is then a cache",
  },
  CLAVIGER_MODELS_S3_REGION: {
    default: "us-east-1",
    ...matching(/^[A-Za-z0-9-]{1,64}$/, "letters, digits and hyphens"),
    meaning: "the region of the bucket",
  },
  CLAVIGER_MODELS_S3_CREDENTIALS_FILE: {
    ...anyText("a file with the lines aws_access_key_id=… and aws_secret_access_key=…"),
    meaning: "the file of the bucket's credentials; a systemd credential named claviger-models-s3 also works",
  },
  CLAVIGER_MODELS_S3_CA_FILE: {
    ...anyText("a file with certificates (PEM)"),
    meaning:
      "the authorities that may sign the certificate of the bucket's server, in place of those of the system",
  },
  CLAVIGER_MODELS_CACHE_GB: {
    default: "20",
    ...wholeNumber(1, 1_000_000),
    meaning:
      "how many gigabytes of the bucket's files this host keeps; those that were used least recently leave first",
  },
  CLAVIGER_POSTGRES_BIN: {
    ...matching(/^\//, "the absolute path of a folder that holds postgres and initdb"),
    meaning:
      "the folder of your own PostgreSQL 18, such as /usr/lib/postgresql/18/bin, that runs the database in place of the PostgreSQL inside; unused with DATABASE_URL",
  },
  CLAVIGER_BRAND: {
    default: "svc",
    ...matching(/^[a-z][a-z0-9]{0,15}$/, "1 to 16 lowercase letters and digits, a letter first"),
    meaning: "the word that keys and, capitalised, the default model types begin with",
  },
  CLAVIGER_INSTALLER_HOST: {
    default: "repo",
    ...matching(/^[a-z][a-z0-9]{0,31}$/, "1 to 32 lowercase letters and digits, a letter first"),
    meaning:
      "the word before token in the installer's path (/v1/installer/repo-token) and field (repo_token)",
  },
  CLAVIGER_MODEL_TYPES: {
    ...MODEL_TYPES,
    meaning:
      "the model types that can be registered; by default LDA, QDA and Probit after the brand, such as SvcLDA",
  },
  CLAVIGER_CACHE_KEYS: {
    default: "50000",
    ...wholeNumber(1_000, 5_000_000),
    meaning:
      "how many keys the service keeps in memory, so that it answers their requests without the database; the page monitoring says how much memory a thousand keys take",
  },
  CLAVIGER_RATE_LIMITS: {
    default: "process",
    ...oneOf(["process", "shared"]),
    meaning:
      "where the requests of a key are counted. process: each process counts for itself; shared: the database counts for all processes, behind a balancer that takes them in turn",
  },
  CLAVIGER_LIMIT_VALIDATE: requestLimit("100", "/v1/auth/validate"),
  CLAVIGER_LIMIT_REFRESH: requestLimit("10", "/v1/auth/refresh"),
  CLAVIGER_LIMIT_REVOKE: requestLimit("10", "/v1/auth/revoke"),
  CLAVIGER_LIMIT_LICENSE: requestLimit("10", "/v1/auth/license", { grows: true }),
  CLAVIGER_LIMIT_REPO_TOKEN: requestLimit("20", "/v1/installer/repo-token"),
  CLAVIGER_LIMIT_MODELS: requestLimit("60", "/v1/models/list"),
  CLAVIGER_LIMIT_ANALYTICS: requestLimit(
    "1000",
    "/v1/analytics/log, together with the events of /v1/analytics/batch",
  ),
  CLAVIGER_LIMIT_ANALYTICS_BATCH: requestLimit("10", "/v1/analytics/batch"),
  CLAVIGER_LIMIT_MACHINE_ACTIVATE: requestLimit("60", "/v1/machines/activate", { grows: true }),
  CLAVIGER_LIMIT_MACHINE_HEARTBEAT: requestLimit("60", "/v1/machines/heartbeat"),
  CLAVIGER_LIMIT_MACHINE_RELEASE: requestLimit("60", "/v1/machines/release"),
  CLAVIGER_LIMIT_MACHINE_LIST: requestLimit("60", "/v1/machines/list", { grows: true }),
  CLAVIGER_OFFLINE_DAYS: {
    default: USUAL_OFFLINE_DAYS,
    ...OFFLINE_DAYS,
    meaning:
      "how many days a signed license of each tier is valid without a network; 0 means that the tier gets none",
  },
  CLAVIGER_LIMIT_DOWNLOADS: {
    default: "60",
    ...wholeNumber(0, 10_000_000),
    meaning:
      "downloads of model files a minute; smaller ranges of one file count once together; 0 means no limit",
  },
  CLAVIGER_DOWNLOADS_PER_KEY: {
    default: "128",
    ...wholeNumber(0, 1_000_000),
    meaning: "downloads of model files that may be in progress at once for one key; 0 means no bound",
  },
  CLAVIGER_DOWNLOADS_AT_ONCE: {
    default: "1024",
    ...wholeNumber(0, 1_000_000),
    meaning:
      "downloads of model files that may be in progress at once for all keys together, each with a connection and an open file; 0 means no bound",
  },
  CLAVIGER_UPLOAD_MAX_GB: {
    default: "10",
    ...wholeNumber(0, 10_000),
    meaning:
      "the largest model file, in gigabytes, that may be uploaded by the API for operators or in the console; 0 means that none may",
  },
  CLAVIGER_TRUSTED_PROXIES: {
    ...TRUSTED_PROXIES,
    meaning: "the proxies whose X-Forwarded-For is trusted",
  },
  CLAVIGER_LOG_FORMAT: {
    default: "text",
    ...oneOf(["text", "json"]),
    meaning: "the format of log lines",
  },
  CLAVIGER_LOG_REQUESTS: {
    default: "sampled",
    ...LOG_REQUESTS,
    meaning:
      "which successful requests the access log shows: one in 100 (sampled), all, none (off), or one in N (1/N); refusals, changes, slow and failed requests are always logged",
  },
  CLAVIGER_LOG_SLOW_MS: {
    default: "500",
    ...wholeNumber(1, 60_000),
    meaning: "the number of milliseconds from which a request counts as slow",
  },
  CLAVIGER_METRICS_LISTEN: {
    ...listenAddress(9464),
    meaning:
      "the address that answers GET /metrics, for Prometheus; without this setting metrics are not served",
  },
  CLAVIGER_ADMIN_LISTEN: {
    ...listenAddress(8081),
    meaning:
      "the address that serves the console and the API for operators; without this setting neither is served",
  },
  CLAVIGER_ADMIN_URL: {
    ...ADMIN_URL,
    meaning:
      "the address under which operators reach CLAVIGER_ADMIN_LISTEN; requests for another host are refused; required when that listener is not on a loopback address",
  },
  CLAVIGER_SESSION_IDLE: {
    default: "30",
    ...wholeNumber(1, 720),
    meaning: "how many minutes without a request end a session of the console that begins from now on",
  },
  CLAVIGER_CUSTOMER_MESSAGE_FILE: {
    ...anyText(
      "a file of at most 10000 bytes with {key}, and with {license}, {address} and {name} as needed",
    ),
    meaning:
      "the file with the message that the console shows beside a new key, for the customer; it is read each time; without this setting the usual message",
  },
  CLAVIGER_OIDC_ISSUER: {
    ...ISSUER_URL,
    meaning:
      "the OpenID provider at which operators log in to the console, by its issuer; it needs CLAVIGER_ADMIN_URL, whose path /console/callback the provider must allow",
  },
  CLAVIGER_OIDC_CLIENT_ID: {
    ...matching(/^[\x21-\x7e]{1,255}$/, "1 to 255 printable ASCII characters without blanks"),
    meaning: "the client id that the provider gave this service",
  },
  CLAVIGER_OIDC_CLIENT_SECRET_FILE: {
    ...anyText("a file with the secret of the client"),
    meaning:
      "the file of the client's secret; a systemd credential named claviger-oidc-secret also works; it is read at each login",
  },
  CLAVIGER_OIDC_NAME: {
    ...matching(/^[^\p{C}]{1,60}$/u, "1 to 60 characters"),
    meaning: "what the login page calls the provider; without this setting its host name",
  },
  CLAVIGER_OIDC_ROLES: {
    default: "admin=claviger-admin,editor=claviger-editor,viewer=claviger-viewer",
    ...OIDC_ROLES,
    meaning:
      "the groups of the provider that may log in, each with its role, written as the provider sends them; the highest role counts",
  },
  CLAVIGER_OIDC_GROUPS_CLAIM: {
    default: "groups",
    ...OIDC_GROUPS_CLAIM,
    meaning:
      "the claim in which the provider sends the groups, such as roles or cognito:groups; its value is a text or a list of texts",
  },
  CLAVIGER_OIDC_SCOPES: {
    ...OIDC_SCOPES,
    meaning:
      "the scopes that a login asks for; without this setting openid profile, and groups if the provider announces it",
  },
  CLAVIGER_OIDC_CA_FILE: {
    ...anyText("a file with certificates (PEM)"),
    meaning: "the authorities that may sign the certificate of the provider, in place of those of the system",
  },
  CLAVIGER_EVENTS_KEPT: {
    default: "0",
    ...wholeNumber(0, 1_200),
    meaning:
      "for how many whole months before the current month usage events are kept; 0 means forever; the counts of usage are always kept",
  },
  CLAVIGER_EVENT_TEXT_MB_A_DAY: {
    default: "50",
    ...wholeNumber(0, 1_000_000),
    meaning:
      "how many megabytes of texts (metadata, error_message, a model_name of more than 64 bytes) the events of one license may store in a day, UTC; further events are stored and counted without texts; 0 means that no texts are stored",
  },
  CLAVIGER_EVENT_TEXT_MB_A_DAY_IN_ALL: {
    default: "5000",
    ...wholeNumber(0, 10_000_000),
    meaning: "the same for the events of all licenses together",
  },
  CLAVIGER_BACKUP_OVERDUE_HOURS: {
    default: "36",
    ...wholeNumber(1, 8_784),
    meaning:
      "how many hours after a backup the next one is overdue, of which doctor, Health and an alert warn; 3 fits the hourly timer",
  },
  CLAVIGER_NOTICE_DAYS: {
    default: "30,7,1",
    ...NOTICE_DAYS,
    meaning:
      "how many days before the end of a license, of its updates, of the certificate or of the repository token there is a notice",
  },
  CLAVIGER_NOTICE_SHARES: {
    default: "80,100",
    ...NOTICE_SHARES,
    meaning: "at how many percent of the quota of a month there is a notice",
  },
  CLAVIGER_NOTICE_REFUSALS: {
    default: "100",
    ...wholeNumber(1, 10_000_000),
    meaning: "there is a notice of a key that is refused more often than so many times in an hour",
  },
  CLAVIGER_SECRET: {
    ...anyText("at least 32 random bytes as hexadecimal digits or base64"),
    meaning:
      "the root secret; if none is given and the database is inside, the first start writes a random secret to the data folder",
  },
  CLAVIGER_SECRET_FILE: {
    ...anyText("a file that holds a secret as CLAVIGER_SECRET allows it"),
    meaning: "the file of the root secret; a systemd credential named claviger-secret also works",
  },
  CLAVIGER_GITHUB_APP_ID: {
    ...matching(/^([1-9]\d{0,18}|Iv[\w.]{1,60})$/, "the number of a GitHub App, or its client id"),
    meaning: "the GitHub App that mints repository tokens, in place of a stored token",
  },
  CLAVIGER_GITHUB_INSTALLATION_ID: {
    ...matching(/^[1-9]\d{0,18}$/, "the number of an installation of the App"),
    meaning: "the App's installation that covers the repository",
  },
  CLAVIGER_GITHUB_PRIVATE_KEY_FILE: {
    ...anyText("a file with the App's private key (PEM)"),
    meaning: "the file of the App's private key; a systemd credential named claviger-github-key also works",
  },
  CLAVIGER_GITHUB_REPOSITORY: {
    ...matching(/^(?!\.{1,2}$)[\w.-]{1,100}$/, "the name of one repository, without its owner"),
    meaning: "the only repository that tokens can read",
  },
  CLAVIGER_GITHUB_URL: {
    default: "https://api.github.com",
    ...API_URL,
    meaning: "the address of GitHub's API; for GitHub Enterprise Server https://HOST/api/v3",
  },
} as const satisfies Readonly<Record<string, SettingRule<unknown> & Description>>;

function requestLimit(standard: string, path: string, { grows = false } = {}) {
  const more = grows ? ", and at least as many as the license has places, up to 5,000" : "";
  const meaning = `requests a minute on ${path}${more}; 0 means no limit`;
  return { default: standard, ...wholeNumber(0, 10_000_000), meaning };
}

/** A setting as the manual and a refusal describe it. */
export interface Setting extends SettingRule<unknown>, Required<Description> {
  readonly name: string;
}

/** All settings, in the order of the manual. */
export const SETTINGS: readonly Setting[] = Object.entries(TABLE).map(([name, setting]) => ({
  name,
  default: "",
  ...setting,
}));

type Table = typeof TABLE;
export type SettingName = keyof Table;
type Parsed<Name extends SettingName> = Exclude<ReturnType<Table[Name]["parse"]>, undefined>;

/** The value of a setting. One without a default may be missing. */
export type SettingValue<Name extends SettingName> = Table[Name] extends { readonly default: string }
  ? Parsed<Name>
  : Parsed<Name> | undefined;
