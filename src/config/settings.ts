/**
 * Every setting: its name, its default, what is allowed and what it means. The README's table and the sentence
 * that refuses a wrong setting both come from here; `config.ts` reads them.
 */

/** A setting as the README's table and a refusal describe it. */
export interface Setting {
  readonly name: string;
  /** Empty where there is none, or where `meaning` tells it. */
  readonly default: string;
  /** What follows "must be". */
  readonly allowed: string;
  readonly meaning: string;
}

/** Every setting, for the README's table and for the list in a refusal. */
export const SETTINGS: readonly Setting[] = [
  {
    name: "DATABASE_URL",
    default: "",
    allowed: "a postgres:// address with a host, such as postgres://user:password@host:5432/claviger",
    meaning:
      "the operator's own PostgreSQL, 15 or newer; several servers as host1:5432,host2:5432; without it the one inside is used",
  },
  {
    name: "CLAVIGER_HOST",
    default: "127.0.0.1",
    allowed: "an address or host name to listen on",
    meaning: "where the service listens",
  },
  {
    name: "CLAVIGER_PORT",
    default: "8080",
    allowed: "a whole number from 0 to 65535",
    meaning: "the port; 0 lets the system choose",
  },
  {
    name: "CLAVIGER_PUBLIC_URL",
    default: "",
    allowed:
      "the http or https address under which clients reach the service, such as https://licenses.example.org",
    meaning: "what the addresses of hosted model files begin with; a path is a prefix that a proxy takes off",
  },
  {
    name: "CLAVIGER_TLS_CERT",
    default: "",
    allowed: "a file with a certificate and its chain (PEM)",
    meaning:
      "the certificate to serve https with; a systemd credential named claviger-tls-cert does as well; reread on SIGHUP",
  },
  {
    name: "CLAVIGER_TLS_KEY",
    default: "",
    allowed: "a file with the key of the certificate (PEM, without a passphrase)",
    meaning: "the certificate's key; a systemd credential named claviger-tls-key does as well",
  },
  {
    name: "CLAVIGER_STOP_GRACE",
    default: "1",
    allowed: "a number of seconds from 0 to 3",
    meaning:
      "after SIGTERM, how long requests are still taken while health answers 503, so that a balancer can turn away; none after Ctrl-C",
  },
  {
    name: "CLAVIGER_DATA_DIR",
    default: "",
    allowed: "a folder",
    meaning:
      "the data folder; else $STATE_DIRECTORY, else /var/lib/claviger for root or where it exists, else ./claviger-data",
  },
  {
    name: "CLAVIGER_POSTGRES_BIN",
    default: "",
    allowed: "the absolute path of a folder that holds postgres and initdb",
    meaning:
      "without DATABASE_URL, runs the database by the operator's own PostgreSQL 18 in place of the one inside, such as /usr/lib/postgresql/18/bin",
  },
  {
    name: "CLAVIGER_BRAND",
    default: "svc",
    allowed: "1 to 16 lowercase letters and digits, a letter first",
    meaning: "the word that keys begin with and, capitalised, model types",
  },
  {
    name: "CLAVIGER_INSTALLER_HOST",
    default: "repo",
    allowed: "1 to 32 lowercase letters and digits, a letter first",
    meaning: "the word in the installer's path and field",
  },
  {
    name: "CLAVIGER_MODEL_TYPES",
    default: "",
    allowed: "1 to 20 names separated by commas, each of 1 to 64 letters and digits",
    meaning: "model types that may be registered; the brand's LDA, QDA and Probit by default",
  },
  ...(
    [
      ["VALIDATE", "100", "/v1/auth/validate"],
      ["REFRESH", "10", "/v1/auth/refresh"],
      ["REVOKE", "10", "/v1/auth/revoke"],
      ["REPO_TOKEN", "20", "/v1/installer/repo-token"],
      ["MODELS", "60", "/v1/models/list"],
      ["ANALYTICS", "1000", "/v1/analytics/log"],
    ] as const
  ).map(([name, standard, path]) => ({
    name: `CLAVIGER_LIMIT_${name}`,
    default: standard,
    allowed: "a whole number from 0 to 10000000",
    meaning: `requests a minute on ${path}; 0 is no limit`,
  })),
  {
    name: "CLAVIGER_LIMIT_DOWNLOADS",
    default: "60",
    allowed: "a whole number from 0 to 10000000",
    meaning: "whole model files a minute, smaller ranges of one counting once; 0 is no limit",
  },
  {
    name: "CLAVIGER_DOWNLOADS_PER_KEY",
    default: "128",
    allowed: "a whole number from 0 to 1000000",
    meaning: "answers with a model file that may be on their way at once for one key; 0 is no bound",
  },
  {
    name: "CLAVIGER_DOWNLOADS_AT_ONCE",
    default: "1024",
    allowed: "a whole number from 0 to 1000000",
    meaning:
      "the same for all keys together, each of which holds a connection and an open file; 0 is no bound",
  },
  {
    name: "CLAVIGER_TRUSTED_PROXIES",
    default: "",
    allowed: "addresses and networks (CIDR) separated by commas",
    meaning: "proxies whose X-Forwarded-For is believed",
  },
  { name: "CLAVIGER_LOG_FORMAT", default: "text", allowed: "text or json", meaning: "the form of log lines" },
  {
    name: "CLAVIGER_LOG_REQUESTS",
    default: "sampled",
    allowed: "sampled, all, off, or 1/N for one in N (up to 1000000)",
    meaning:
      "successful requests in the access log: one in 100, all, none, or one in N; refusals, changes, slow and failed ones always are",
  },
  {
    name: "CLAVIGER_LOG_SLOW_MS",
    default: "500",
    allowed: "a whole number from 1 to 60000",
    meaning: "from how many milliseconds on a request counts as slow",
  },
  {
    name: "CLAVIGER_METRICS_LISTEN",
    default: "",
    allowed: "HOST:PORT, such as 127.0.0.1:9464 or [::1]:9464",
    meaning: "where GET /metrics is answered, for Prometheus; nowhere by default",
  },
  {
    name: "CLAVIGER_EVENTS_KEPT",
    default: "0",
    allowed: "a whole number from 0 to 1200",
    meaning:
      "for how many whole months before the present one usage events are kept; 0 is forever; the counts of usage always stay",
  },
  {
    name: "CLAVIGER_SECRET",
    default: "",
    allowed: "at least 32 random bytes as hexadecimal digits or base64",
    meaning: "the root secret; generated into the data folder when none is given and the database is inside",
  },
  {
    name: "CLAVIGER_SECRET_FILE",
    default: "",
    allowed: "a file that holds such a secret",
    meaning: "where the root secret is read from; a systemd credential named claviger-secret does as well",
  },
  {
    name: "CLAVIGER_GITHUB_APP_ID",
    default: "",
    allowed: "the number of a GitHub App, or its client id",
    meaning: "the GitHub App that repository tokens are minted by, instead of one that is stored",
  },
  {
    name: "CLAVIGER_GITHUB_INSTALLATION_ID",
    default: "",
    allowed: "the number of an installation of the App",
    meaning: "the installation that owns the repository",
  },
  {
    name: "CLAVIGER_GITHUB_PRIVATE_KEY_FILE",
    default: "",
    allowed: "a file with the App's private key (PEM)",
    meaning: "where the App's key is read from; a systemd credential named claviger-github-key does as well",
  },
  {
    name: "CLAVIGER_GITHUB_REPOSITORY",
    default: "",
    allowed: "the name of one repository, without its owner",
    meaning: "the one repository that tokens can read",
  },
  {
    name: "CLAVIGER_GITHUB_URL",
    default: "https://api.github.com",
    allowed: "an https:// address without user, query or fragment (http:// for a loopback address alone)",
    meaning: "the host's interface; of an enterprise server https://HOST/api/v3",
  },
];

/** The row of the table; undefined for a name that is no setting. */
export function findSetting(name: string): Setting | undefined {
  return SETTINGS.find((setting) => setting.name === name);
}

export function isSetting(name: string): boolean {
  return findSetting(name) !== undefined;
}
