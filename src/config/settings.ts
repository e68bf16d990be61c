/**
 * The table of all settings: name, default, allowed values and meaning. The manual's page of settings, the manual
 * page of man(1) and the refusals of wrong settings are written from it.
 */

/** A setting as the manual and a refusal describe it. */
export interface Setting {
  readonly name: string;
  /** Empty if there is no default, or if `meaning` explains it. */
  readonly default: string;
  /** The allowed values, as the words that follow "must be". */
  readonly allowed: string;
  readonly meaning: string;
}

/** All settings, in the order of the manual. */
export const SETTINGS: readonly Setting[] = [
  {
    name: "DATABASE_URL",
    default: "",
    allowed: "a postgres:// address with a host, such as postgres://user:password@host:5432/claviger",
    meaning:
      "your own PostgreSQL, 15 or newer; several servers as host1:5432,host2:5432; without this setting the PostgreSQL inside is used",
  },
  {
    name: "CLAVIGER_HOST",
    default: "127.0.0.1",
    allowed: "an address or host name to listen on",
    meaning: "the address that the service listens on",
  },
  {
    name: "CLAVIGER_PORT",
    default: "8080",
    allowed: "a whole number from 0 to 65535",
    meaning: "the port that the service listens on; 0 lets the system choose",
  },
  {
    name: "CLAVIGER_PUBLIC_URL",
    default: "",
    allowed:
      "the http or https address under which clients reach the service, such as https://licenses.example.org",
    meaning:
      "the start of the download addresses of hosted model files; a path in it is a prefix that a proxy removes",
  },
  {
    name: "CLAVIGER_TLS_CERT",
    default: "",
    allowed: "a file with a certificate and its chain (PEM)",
    meaning:
      "the certificate for https; a systemd credential named claviger-tls-cert also works; SIGHUP reads it again",
  },
  {
    name: "CLAVIGER_TLS_KEY",
    default: "",
    allowed: "a file with the key of the certificate (PEM, without a passphrase)",
    meaning: "the certificate's key; a systemd credential named claviger-tls-key also works",
  },
  {
    name: "CLAVIGER_STOP_GRACE",
    default: "1",
    allowed: "a number of seconds from 0 to 3",
    meaning:
      "how many seconds after SIGTERM the service still takes requests while health answers 503, so that a load balancer can stop sending; Ctrl-C stops without this delay",
  },
  {
    name: "CLAVIGER_DATA_DIR",
    default: "",
    allowed: "a folder",
    meaning:
      "the data folder; without this setting $STATE_DIRECTORY, else /var/lib/claviger for root or if it exists, else ./claviger-data",
  },
  {
    name: "CLAVIGER_POSTGRES_BIN",
    default: "",
    allowed: "the absolute path of a folder that holds postgres and initdb",
    meaning:
      "the folder of your own PostgreSQL 18, such as /usr/lib/postgresql/18/bin, that runs the database in place of the PostgreSQL inside; unused with DATABASE_URL",
  },
  {
    name: "CLAVIGER_BRAND",
    default: "svc",
    allowed: "1 to 16 lowercase letters and digits, a letter first",
    meaning: "the word that keys and, capitalised, the default model types begin with",
  },
  {
    name: "CLAVIGER_INSTALLER_HOST",
    default: "repo",
    allowed: "1 to 32 lowercase letters and digits, a letter first",
    meaning:
      "the word before token in the installer's path (/v1/installer/repo-token) and field (repo_token)",
  },
  {
    name: "CLAVIGER_MODEL_TYPES",
    default: "",
    allowed: "1 to 20 names separated by commas, each of 1 to 64 letters and digits",
    meaning:
      "the model types that can be registered; by default LDA, QDA and Probit after the brand, such as SvcLDA",
  },
  ...(
    [
      ["VALIDATE", "100", "/v1/auth/validate"],
      ["REFRESH", "10", "/v1/auth/refresh"],
      ["REVOKE", "10", "/v1/auth/revoke"],
      ["LICENSE", "10", "/v1/auth/license"],
      ["REPO_TOKEN", "20", "/v1/installer/repo-token"],
      ["MODELS", "60", "/v1/models/list"],
      ["ANALYTICS", "1000", "/v1/analytics/log"],
    ] as const
  ).map(([name, standard, path]) => ({
    name: `CLAVIGER_LIMIT_${name}`,
    default: standard,
    allowed: "a whole number from 0 to 10000000",
    meaning: `requests a minute on ${path}; 0 means no limit`,
  })),
  {
    name: "CLAVIGER_OFFLINE_DAYS",
    default: "free=1,research=7,commercial=14,enterprise=30",
    allowed:
      "tiers with days from 0 to 3650, such as free=0,enterprise=60; a tier that is left out keeps its default",
    meaning:
      "how many days a signed license of each tier is valid without a network; 0 means that the tier gets none",
  },
  {
    name: "CLAVIGER_LIMIT_DOWNLOADS",
    default: "60",
    allowed: "a whole number from 0 to 10000000",
    meaning:
      "downloads of model files a minute; smaller ranges of one file count once together; 0 means no limit",
  },
  {
    name: "CLAVIGER_DOWNLOADS_PER_KEY",
    default: "128",
    allowed: "a whole number from 0 to 1000000",
    meaning: "downloads of model files that may be in progress at once for one key; 0 means no bound",
  },
  {
    name: "CLAVIGER_DOWNLOADS_AT_ONCE",
    default: "1024",
    allowed: "a whole number from 0 to 1000000",
    meaning:
      "downloads of model files that may be in progress at once for all keys together, each with a connection and an open file; 0 means no bound",
  },
  {
    name: "CLAVIGER_TRUSTED_PROXIES",
    default: "",
    allowed: "addresses and networks (CIDR) separated by commas",
    meaning: "the proxies whose X-Forwarded-For is trusted",
  },
  {
    name: "CLAVIGER_LOG_FORMAT",
    default: "text",
    allowed: "text or json",
    meaning: "the format of log lines",
  },
  {
    name: "CLAVIGER_LOG_REQUESTS",
    default: "sampled",
    allowed: "sampled, all, off, or 1/N for one in N (up to 1000000)",
    meaning:
      "which successful requests the access log shows: one in 100 (sampled), all, none (off), or one in N (1/N); refusals, changes, slow and failed requests are always logged",
  },
  {
    name: "CLAVIGER_LOG_SLOW_MS",
    default: "500",
    allowed: "a whole number from 1 to 60000",
    meaning: "the number of milliseconds from which a request counts as slow",
  },
  {
    name: "CLAVIGER_METRICS_LISTEN",
    default: "",
    allowed: "HOST:PORT, such as 127.0.0.1:9464 or [::1]:9464",
    meaning:
      "the address that answers GET /metrics, for Prometheus; without this setting metrics are not served",
  },
  {
    name: "CLAVIGER_ADMIN_LISTEN",
    default: "",
    allowed: "HOST:PORT, such as 127.0.0.1:8081 or [::1]:8081",
    meaning:
      "the address that serves the console and the API for operators; without this setting neither is served",
  },
  {
    name: "CLAVIGER_ADMIN_URL",
    default: "",
    allowed:
      "an https:// address without user, path, query or fragment, such as https://admin.example.org (http:// only for a loopback address)",
    meaning:
      "the address under which operators reach CLAVIGER_ADMIN_LISTEN; requests for another host are refused; required when that listener is not on a loopback address",
  },
  {
    name: "CLAVIGER_EVENTS_KEPT",
    default: "0",
    allowed: "a whole number from 0 to 1200",
    meaning:
      "for how many whole months before the current month usage events are kept; 0 means forever; the counts of usage are always kept",
  },
  {
    name: "CLAVIGER_SECRET",
    default: "",
    allowed: "at least 32 random bytes as hexadecimal digits or base64",
    meaning:
      "the root secret; if none is given and the database is inside, the first start writes a random secret to the data folder",
  },
  {
    name: "CLAVIGER_SECRET_FILE",
    default: "",
    allowed: "a file that holds a secret as CLAVIGER_SECRET allows it",
    meaning: "the file of the root secret; a systemd credential named claviger-secret also works",
  },
  {
    name: "CLAVIGER_GITHUB_APP_ID",
    default: "",
    allowed: "the number of a GitHub App, or its client id",
    meaning: "the GitHub App that mints repository tokens, in place of a stored token",
  },
  {
    name: "CLAVIGER_GITHUB_INSTALLATION_ID",
    default: "",
    allowed: "the number of an installation of the App",
    meaning: "the App's installation that covers the repository",
  },
  {
    name: "CLAVIGER_GITHUB_PRIVATE_KEY_FILE",
    default: "",
    allowed: "a file with the App's private key (PEM)",
    meaning: "the file of the App's private key; a systemd credential named claviger-github-key also works",
  },
  {
    name: "CLAVIGER_GITHUB_REPOSITORY",
    default: "",
    allowed: "the name of one repository, without its owner",
    meaning: "the only repository that tokens can read",
  },
  {
    name: "CLAVIGER_GITHUB_URL",
    default: "https://api.github.com",
    allowed: "an https:// address without user, query or fragment (http:// only for a loopback address)",
    meaning: "the address of GitHub's API; for GitHub Enterprise Server https://HOST/api/v3",
  },
];

/** Finds a setting in the table; undefined for a name that is not a setting. */
export function findSetting(name: string): Setting | undefined {
  return SETTINGS.find((setting) => setting.name === name);
}

/** Tells whether a setting has this name. */
export function isSetting(name: string): boolean {
  return findSetting(name) !== undefined;
}
