import { beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isRefusal } from "../../../src/base/refusal.ts";
import { loadCertificate } from "../../../src/base/tls/mod.ts";
import { type Config, type ConfigSource, readConfig } from "../../../src/installation/config/mod.ts";
import { SETTINGS } from "../../../src/installation/config/settings.ts";
import { asNobody } from "../../support/as_nobody.ts";
import { useFolder } from "../../support/use_folder.ts";

const folder = useFolder();

let files = 0;

function fileWith(text: string): string {
  const path = join(folder, `settings-${++files}`);
  writeFileSync(path, text);
  return path;
}

/** An empty settings file, so that no settings file of this machine is read. */
const nothing = fileWith("");

function source(given: Partial<ConfigSource>): ConfigSource {
  return { env: {}, workingFolder: "/srv/app", isRoot: false, envFile: nothing, ...given };
}

function read(given: Partial<ConfigSource>): Config {
  const config = readConfig(source(given));
  if (isRefusal(config)) throw new Error(config.sentence);
  return config;
}

function refusal(given: Partial<ConfigSource>): string {
  const config = readConfig(source(given));
  return isRefusal(config) ? config.sentence : "accepted";
}

test("readConfig() returns the defaults of the contract if nothing is set", () => {
  expect(read({})).toEqual({
    host: "127.0.0.1",
    port: 8080,
    tls: undefined,
    stopGraceMs: 1_000,
    publicUrl: undefined,
    databaseUrl: undefined,
    postgresBin: undefined,
    dataDir: expect.any(String),
    modelsDir: undefined,
    modelsBucket: undefined,
    modelsCacheBytes: 20e9,
    brand: { name: "svc", installerHost: "repo", modelTypes: ["SvcLDA", "SvcQDA", "SvcProbit"] },
    limits: {
      validate: 100,
      refresh: 10,
      revoke: 10,
      license: 10,
      repo_token: 20,
      models: 60,
      downloads: 60,
      analytics: 1000,
      analytics_batch: 10,
      machine_activate: 60,
      machine_heartbeat: 60,
      machine_release: 60,
      machine_list: 60,
    },
    cacheKeys: 50_000,
    rateLimits: "process",
    offlineDays: { free: 1, research: 7, commercial: 14, enterprise: 30 },
    downloadsPerKey: 128,
    downloadsAtOnce: 1024,
    uploadMaxGb: 10,
    trustedProxies: [],
    logFormat: "text",
    logRequests: "sampled",
    logSlowMs: 500,
    eventsKeptMonths: 0,
    textBounds: { licenseBytes: 50e6, installationBytes: 5e9 },
    backupOverdueHours: 36,
    notices: { days: [30, 7, 1], shares: [80, 100], refusalsAnHour: 100 },
    sessionIdleMinutes: 30,
    customerMessageFile: undefined,
    metricsListen: undefined,
    adminListen: undefined,
    adminUrl: undefined,
    provider: undefined,
    secret: undefined,
    gitHubApp: undefined,
    unseen: undefined,
  });
});

const accepted: [name: string, value: string, expected: Partial<Config> | object][] = [
  ["DATABASE_URL", "postgres://u:p@db:5432/c", { databaseUrl: "postgres://u:p@db:5432/c" }],
  ["DATABASE_URL", "postgresql://db/c?sslmode=require", { databaseUrl: "postgresql://db/c?sslmode=require" }],
  ["CLAVIGER_POSTGRES_BIN", "/usr/lib/postgresql/18/bin", { postgresBin: "/usr/lib/postgresql/18/bin" }],
  ["DATABASE_URL", "postgres://u@a,[::1]:2/c", { databaseUrl: "postgres://u@a,[::1]:2/c" }],
  ["CLAVIGER_HOST", "::1", { host: "::1" }],
  ["CLAVIGER_HOST", "0.0.0.0", { host: "0.0.0.0" }],
  ["CLAVIGER_PORT", "0", { port: 0 }],
  ["CLAVIGER_PORT", "65535", { port: 65_535 }],
  ["CLAVIGER_STOP_GRACE", "0", { stopGraceMs: 0 }],
  ["CLAVIGER_STOP_GRACE", "2.5", { stopGraceMs: 2_500 }],
  ["CLAVIGER_PUBLIC_URL", "https://l.example.org", { publicUrl: "https://l.example.org" }],
  ["CLAVIGER_PUBLIC_URL", "HTTP://L.example.org:8080/a/b//", { publicUrl: "http://l.example.org:8080/a/b" }],
  ["CLAVIGER_DATA_DIR", "/srv/keys", { dataDir: "/srv/keys" }],
  ["CLAVIGER_DATA_DIR", "keys", { dataDir: "/srv/app/keys" }],
  ["CLAVIGER_MODELS_DIR", "models", { modelsDir: "/srv/app/models" }],
  ["CLAVIGER_NOTICE_DAYS", "7, 60", { notices: { days: [60, 7], shares: [80, 100], refusalsAnHour: 100 } }],
  ["CLAVIGER_NOTICE_REFUSALS", "9", { notices: { days: [30, 7, 1], shares: [80, 100], refusalsAnHour: 9 } }],
  [
    "CLAVIGER_NOTICE_SHARES",
    "90,50",
    { notices: { days: [30, 7, 1], shares: [50, 90], refusalsAnHour: 100 } },
  ],
  ["CLAVIGER_MODELS_CACHE_GB", "3", { modelsCacheBytes: 3e9 }],
  [
    "CLAVIGER_MODELS_S3",
    "https://S3.example.org:9000/models/of/us/",
    { modelsBucket: { url: "https://s3.example.org:9000/models/of/us", region: "us-east-1" } },
  ],
  [
    "CLAVIGER_BRAND",
    "acme2",
    { brand: { name: "acme2", modelTypes: ["Acme2LDA", "Acme2QDA", "Acme2Probit"] } },
  ],
  ["CLAVIGER_BRAND", "a".repeat(16), { brand: { name: "a".repeat(16) } }],
  ["CLAVIGER_INSTALLER_HOST", "forge", { brand: { installerHost: "forge" } }],
  ["CLAVIGER_MODEL_TYPES", "One, Two2", { brand: { modelTypes: ["One", "Two2"] } }],
  ["CLAVIGER_LIMIT_VALIDATE", "0", { limits: { validate: 0 } }],
  ["CLAVIGER_LIMIT_REFRESH", "11", { limits: { refresh: 11 } }],
  ["CLAVIGER_LIMIT_REVOKE", "12", { limits: { revoke: 12 } }],
  ["CLAVIGER_LIMIT_LICENSE", "12", { limits: { license: 12 } }],
  [
    "CLAVIGER_OFFLINE_DAYS",
    "free=0,enterprise=3650",
    { offlineDays: { free: 0, research: 7, enterprise: 3_650 } },
  ],
  ["CLAVIGER_LIMIT_REPO_TOKEN", "13", { limits: { repo_token: 13 } }],
  ["CLAVIGER_LIMIT_MODELS", "14", { limits: { models: 14 } }],
  ["CLAVIGER_LIMIT_DOWNLOADS", "15", { limits: { downloads: 15 } }],
  ["CLAVIGER_DOWNLOADS_PER_KEY", "0", { downloadsPerKey: 0 }],
  ["CLAVIGER_DOWNLOADS_AT_ONCE", "9", { downloadsAtOnce: 9 }],
  ["CLAVIGER_UPLOAD_MAX_GB", "2", { uploadMaxGb: 2 }],
  ["CLAVIGER_LIMIT_MACHINE_ACTIVATE", "1", { limits: { machine_activate: 1 } }],
  ["CLAVIGER_LIMIT_MACHINE_HEARTBEAT", "0", { limits: { machine_heartbeat: 0 } }],
  ["CLAVIGER_LIMIT_MACHINE_RELEASE", "9", { limits: { machine_release: 9 } }],
  ["CLAVIGER_LIMIT_MACHINE_LIST", "8", { limits: { machine_list: 8 } }],
  ["CLAVIGER_LIMIT_ANALYTICS", "10000000", { limits: { analytics: 10_000_000 } }],
  ["CLAVIGER_LIMIT_ANALYTICS_BATCH", "0", { limits: { analytics_batch: 0 } }],
  ["CLAVIGER_TRUSTED_PROXIES", "10.0.0.0/8, ::1", { trustedProxies: [expect.anything(), expect.anything()] }],
  ["CLAVIGER_LOG_FORMAT", "json", { logFormat: "json" }],
  ["CLAVIGER_CACHE_KEYS", "200000", { cacheKeys: 200_000 }],
  ["CLAVIGER_RATE_LIMITS", "shared", { rateLimits: "shared" }],
  ["CLAVIGER_LOG_REQUESTS", "all", { logRequests: "all" }],
  ["CLAVIGER_LOG_REQUESTS", "off", { logRequests: "off" }],
  ["CLAVIGER_LOG_REQUESTS", "1/1", { logRequests: "1/1" }],
  ["CLAVIGER_LOG_REQUESTS", "1/1000000", { logRequests: "1/1000000" }],
  ["CLAVIGER_LOG_SLOW_MS", "1", { logSlowMs: 1 }],
  ["CLAVIGER_EVENTS_KEPT", "13", { eventsKeptMonths: 13 }],
  ["CLAVIGER_EVENT_TEXT_MB_A_DAY", "0", { textBounds: { licenseBytes: 0, installationBytes: 5e9 } }],
  [
    "CLAVIGER_EVENT_TEXT_MB_A_DAY_IN_ALL",
    "7",
    { textBounds: { licenseBytes: 50e6, installationBytes: 7e6 } },
  ],
  ["CLAVIGER_BACKUP_OVERDUE_HOURS", "3", { backupOverdueHours: 3 }],
  ["CLAVIGER_CUSTOMER_MESSAGE_FILE", "message.txt", { customerMessageFile: "/srv/app/message.txt" }],
  ["CLAVIGER_SESSION_IDLE", "720", { sessionIdleMinutes: 720 }],
  ["CLAVIGER_METRICS_LISTEN", "127.0.0.1:9464", { metricsListen: { host: "127.0.0.1", port: 9464 } }],
  ["CLAVIGER_METRICS_LISTEN", "[::1]:0", { metricsListen: { host: "::1", port: 0 } }],
  ["CLAVIGER_METRICS_LISTEN", "db-1.example.org:1", { metricsListen: { host: "db-1.example.org", port: 1 } }],
  ["CLAVIGER_ADMIN_LISTEN", "[::1]:8081", { adminListen: { host: "::1", port: 8081 } }],
  ["CLAVIGER_ADMIN_URL", "https://Admin.example.org:443/", { adminUrl: "https://admin.example.org" }],
  ["CLAVIGER_ADMIN_URL", "https://admin.example.org:8443", { adminUrl: "https://admin.example.org:8443" }],
  ["CLAVIGER_ADMIN_URL", "http://[::1]:8081", { adminUrl: "http://[::1]:8081" }],
  ["CLAVIGER_ADMIN_URL", "http://localhost:8081", { adminUrl: "http://localhost:8081" }],
  ["CLAVIGER_SECRET", "abc", { secret: { text: "abc", source: "CLAVIGER_SECRET" } }],
];

test.each(accepted)("readConfig() accepts %s=%s", (name, value, expected) => {
  expect(read({ env: { [name]: value } })).toMatchObject(expected);
});

const refused: [name: string, value: string][] = [
  ["DATABASE_URL", "mysql://u:hidden@db/c"],
  ["DATABASE_URL", "u:hidden@db/c"],
  ["DATABASE_URL", "postgres:///hidden"],
  ["DATABASE_URL", "postgres://u:hid#den@db/c"],
  ["DATABASE_URL", "postgres://u:hid%den@db/c"],
  ["CLAVIGER_POSTGRES_BIN", "postgresql/18/bin"],
  ["CLAVIGER_NOTICE_DAYS", "30,366"],
  ["CLAVIGER_NOTICE_DAYS", "7,7"],
  ["CLAVIGER_NOTICE_DAYS", "1,2,3,4,5,6"],
  ["CLAVIGER_NOTICE_REFUSALS", "0"],
  ["CLAVIGER_NOTICE_SHARES", "0,100"],
  ["CLAVIGER_NOTICE_SHARES", "101"],
  ["CLAVIGER_MODELS_S3", "https://s3.example.org"],
  ["CLAVIGER_MODELS_S3", "http://s3.example.org/models"],
  ["CLAVIGER_MODELS_S3", "https://user:hidden@s3.example.org/models"],
  ["CLAVIGER_MODELS_S3", "https://s3.example.org/models?a=b"],
  ["CLAVIGER_MODELS_S3", "https://s3.example.org/models/../others"],
  ["CLAVIGER_MODELS_S3", "https://s3.example.org/models/with%20space"],
  ["CLAVIGER_MODELS_S3_REGION", "eu central"],
  ["CLAVIGER_MODELS_CACHE_GB", "0"],
  ["DATABASE_URL", "postgres://u:hidden@db,/c"],
  ["DATABASE_URL", "postgres://u:hidden@db:1,other:port/c"],
  ["CLAVIGER_HOST", "bad host"],
  ["CLAVIGER_HOST", "http://x/"],
  ["CLAVIGER_PORT", "65536"],
  ["CLAVIGER_PORT", "-1"],
  ["CLAVIGER_PORT", "80 80"],
  ["CLAVIGER_PORT", "0x50"],
  ["CLAVIGER_BRAND", "Svc"],
  ["CLAVIGER_BRAND", "2svc"],
  ["CLAVIGER_BRAND", "a".repeat(17)],
  ["CLAVIGER_INSTALLER_HOST", "re/po"],
  ["CLAVIGER_MODEL_TYPES", "A,,B"],
  ["CLAVIGER_MODEL_TYPES", Array(21).fill("A").join(",")],
  ["CLAVIGER_MODEL_TYPES", "A".repeat(65)],
  ["CLAVIGER_LIMIT_VALIDATE", "10000001"],
  ["CLAVIGER_LIMIT_REFRESH", "1.5"],
  ["CLAVIGER_LIMIT_REVOKE", "-1"],
  ["CLAVIGER_LIMIT_LICENSE", "ten"],
  ["CLAVIGER_OFFLINE_DAYS", "free=1,free=2"],
  ["CLAVIGER_OFFLINE_DAYS", "gold=1"],
  ["CLAVIGER_OFFLINE_DAYS", "free=3651"],
  ["CLAVIGER_LIMIT_REPO_TOKEN", "none"],
  ["CLAVIGER_LIMIT_MODELS", "1e3"],
  ["CLAVIGER_LIMIT_MACHINE_ACTIVATE", "-1"],
  ["CLAVIGER_LIMIT_MACHINE_HEARTBEAT", "1.5"],
  ["CLAVIGER_LIMIT_MACHINE_RELEASE", "many"],
  ["CLAVIGER_LIMIT_MACHINE_LIST", "-5"],
  ["CLAVIGER_LIMIT_ANALYTICS", " 5"],
  ["CLAVIGER_LIMIT_ANALYTICS_BATCH", "1.5"],
  ["CLAVIGER_LIMIT_DOWNLOADS", "sixty"],
  ["CLAVIGER_DOWNLOADS_PER_KEY", "1000001"],
  ["CLAVIGER_DOWNLOADS_AT_ONCE", "-1"],
  ["CLAVIGER_UPLOAD_MAX_GB", "1.5"],
  ["CLAVIGER_STOP_GRACE", "3.1"],
  ["CLAVIGER_STOP_GRACE", "soon"],
  ["CLAVIGER_PUBLIC_URL", "licenses.example.org"],
  ["CLAVIGER_PUBLIC_URL", "ftp://licenses.example.org"],
  ["CLAVIGER_PUBLIC_URL", "https://user:password@licenses.example.org"],
  ["CLAVIGER_PUBLIC_URL", "https://licenses.example.org/?a=b"],
  ["CLAVIGER_PUBLIC_URL", "https://licenses.example.org/#a"],
  ["CLAVIGER_PUBLIC_URL", "https:// licenses.example.org"],
  ["CLAVIGER_TRUSTED_PROXIES", "10.0.0.0/33"],
  ["CLAVIGER_LOG_FORMAT", "xml"],
  ["CLAVIGER_CACHE_KEYS", "999"],
  ["CLAVIGER_RATE_LIMITS", "database"],
  ["CLAVIGER_LOG_REQUESTS", "ALL"],
  ["CLAVIGER_LOG_REQUESTS", "1/0"],
  ["CLAVIGER_LOG_REQUESTS", "1/1000001"],
  ["CLAVIGER_LOG_REQUESTS", "0.5"],
  ["CLAVIGER_LOG_SLOW_MS", "0"],
  ["CLAVIGER_LOG_SLOW_MS", "60001"],
  ["CLAVIGER_EVENTS_KEPT", "1201"],
  ["CLAVIGER_EVENTS_KEPT", "forever"],
  ["CLAVIGER_SESSION_IDLE", "0"],
  ["CLAVIGER_SESSION_IDLE", "721"],
  ["CLAVIGER_EVENT_TEXT_MB_A_DAY", "-1"],
  ["CLAVIGER_EVENT_TEXT_MB_A_DAY_IN_ALL", "1 GB"],
  ["CLAVIGER_BACKUP_OVERDUE_HOURS", "0"],
  ["CLAVIGER_BACKUP_OVERDUE_HOURS", "8785"],
  ["CLAVIGER_METRICS_LISTEN", "9464"],
  ["CLAVIGER_METRICS_LISTEN", ":9464"],
  ["CLAVIGER_METRICS_LISTEN", "::1:9464"],
  ["CLAVIGER_METRICS_LISTEN", "127.0.0.1:65536"],
  ["CLAVIGER_METRICS_LISTEN", "http://127.0.0.1:9464"],
  ["CLAVIGER_ADMIN_LISTEN", "8081"],
  ["CLAVIGER_ADMIN_URL", "admin.example.org"],
  ["CLAVIGER_ADMIN_URL", "http://admin.example.org"],
  ["CLAVIGER_ADMIN_URL", "http://127.0.0.1.example.org"],
  ["CLAVIGER_ADMIN_URL", "https://admin.example.org/console"],
  ["CLAVIGER_ADMIN_URL", "https://hidden:hidden@admin.example.org"],
  ["CLAVIGER_ADMIN_URL", "https://admin.example.org?a=hidden"],
  ["CLAVIGER_ADMIN_URL", "https://admin.example.org#hidden"],
];

test.each(refused)(
  "readConfig() refuses %s=%s and names the setting and its allowed values",
  (name, value) => {
    const sentence = refusal({ env: { [name]: value } });
    const { expects } = SETTINGS.find((setting) => setting.name === name)!;
    expect(sentence).toStartWith(`${name} must be ${expects}`);
    expect(sentence).not.toContain("\n");
    if (name.endsWith("_URL")) expect(sentence).not.toContain("hid");
  },
);

test("readConfig() says where a refused setting was set: by a flag, in the environment, or in a line of the file", () => {
  const inFile = fileWith("# mine\n\nCLAVIGER_PORT=file\nCLAVIGER_HOST=h\n");
  const must = "CLAVIGER_PORT must be a whole number from 0 to 65535, not";
  expect(refusal({ envFile: inFile })).toBe(`${must} "file"; it is set in ${inFile}, line 3`);
  const env = { CLAVIGER_PORT: "environment" };
  expect(refusal({ envFile: inFile, env })).toBe(`${must} "environment"; it is set in the environment`);
  const flags = { CLAVIGER_PORT: "flag" };
  expect(refusal({ envFile: inFile, env, flags })).toBe(`${must} "flag"; it was given by --port`);
  expect(refusal({ flags: { CLAVIGER_METRICS_LISTEN: "x" } })).toEndWith(
    "; it was given by --metrics-listen",
  );
  expect(refusal({ env: { CLAVIGER_TLS_KEY: "k" } })).toEndWith("; it is set in the environment");
  expect(refusal({ env: { CLAVIGER_PROT: "1" } })).toEndWith("; it is set in the environment");
  // systemd reads the settings file for its service, so the service cannot distinguish the file from the unit.
  for (const name of ["CLAVIGER_PORT", "CLAVIGER_PROT"]) {
    expect(refusal({ env: { [name]: "x", NOTIFY_SOCKET: "/run/systemd/notify" } })).toEndWith(
      "; it is set in the unit, or in a file of its EnvironmentFile=",
    );
  }
  const misspelt = fileWith("CLAVIGER_HOST=h\nCLAVIGER_PROT=1\n");
  expect(refusal({ envFile: misspelt })).toEndWith(`; it is set in ${misspelt}, line 2`);
  const secret = fileWith("DATABASE_URL=postgres://u:hidden@/x\n");
  expect(refusal({ envFile: secret })).toEndWith(`; it is set in ${secret}, line 1`);
  expect(refusal({ envFile: secret })).not.toContain("hidden");
});

test("the tables above try a right value of every setting, and a wrong value of every setting that has one", () => {
  // The settings of the GitHub App belong together, as those of the identity provider, of TLS and of the bucket do:
  // other tests try them.
  const names = SETTINGS.map(({ name }) => name).filter(
    (name) => !/^CLAVIGER_(GITHUB|OIDC|TLS|MODELS_S3)_/.test(name),
  );
  const tried = new Set(accepted.map(([name]) => name));
  expect(names.filter((name) => !tried.has(name))).toEqual(["CLAVIGER_SECRET_FILE"]);
  const bad = new Set(refused.map(([name]) => name));
  expect(names.filter((name) => !bad.has(name))).toEqual([
    // Any path may be a folder; the code that uses a secret checks it.
    "CLAVIGER_DATA_DIR",
    "CLAVIGER_MODELS_DIR",
    "CLAVIGER_CUSTOMER_MESSAGE_FILE",
    "CLAVIGER_SECRET",
    "CLAVIGER_SECRET_FILE",
  ]);
});

test("readConfig() accepts a certificate with its key, and refuses one without the other", () => {
  const [CLAVIGER_TLS_CERT, CLAVIGER_TLS_KEY] = ["tls/cert.pem", "/etc/tls/key.pem"];
  expect(read({ env: { CLAVIGER_TLS_CERT, CLAVIGER_TLS_KEY } }).tls).toEqual({
    certFile: "/srv/app/tls/cert.pem",
    keyFile: "/etc/tls/key.pem",
  });
  expect(refusal({ env: { CLAVIGER_TLS_CERT } })).toContain("CLAVIGER_TLS_KEY: give both or neither");
  expect(refusal({ env: { CLAVIGER_TLS_KEY } })).toContain("CLAVIGER_TLS_CERT: give both or neither");
});

describe("readConfig() and a certificate that the settings name", () => {
  const open = useFolder(tmpdir());
  chmodSync(open, 0o755);
  const [copies, certFile, keyFile] = ["copies", "tls.crt", "tls.key"].map((name) => join(open, name)) as [
    string,
    string,
    string,
  ];
  const names = ["claviger-tls-cert", "claviger-tls-key"] as const;
  mkdirSync(copies);
  beforeEach(() => {
    for (const path of [certFile, keyFile, ...names.map((name) => join(copies, name))]) {
      // An earlier test may have closed it.
      rmSync(path, { force: true });
      writeFileSync(path, "");
    }
  });
  const named = { CLAVIGER_TLS_CERT: certFile, CLAVIGER_TLS_KEY: keyFile };
  const passedOn = {
    certFile: join(copies, names[0]),
    keyFile: join(copies, names[1]),
    isCopy: true,
  } as const;
  const find = (env = {}) =>
    read({ env: { ...named, CREDENTIALS_DIRECTORY: copies, ...env }, envFile: "/dev/null" }).tls;

  test("takes the files themselves if the service's user may read both", () => {
    asNobody(() => expect(find()).toEqual({ certFile, keyFile }));
  });

  test("takes the copies that systemd passes on if the user may not read one of the files", () => {
    chmodSync(keyFile, 0);
    asNobody(() => expect(find()).toEqual(passedOn));
  });

  test("takes a missing or wrong file as it is, to be refused, whatever systemd passes on", () => {
    const missing = "/nowhere/tls.crt";
    expect(find({ CLAVIGER_TLS_CERT: missing })).toEqual({ certFile: missing, keyFile });
    expect(find({ CLAVIGER_TLS_CERT: open })).toEqual({ certFile: open, keyFile });
  });

  test("is refused at the start if systemd passes on no copy, or only one, of files that the user may not read", () => {
    chmodSync(keyFile, 0);
    rmSync(passedOn.keyFile);
    asNobody(() => {
      for (const tls of [find(), find({ CREDENTIALS_DIRECTORY: "" })]) {
        expect(tls).toEqual({ certFile, keyFile });
        const loaded = loadCertificate(tls ?? { certFile, keyFile });
        expect(isRefusal(loaded) && loaded.sentence).toStartWith(
          `Cannot use TLS: the key ${keyFile}: this user may not read it; let the service's user read it`,
        );
      }
    });
  });
});

test("readConfig() finds the credentials of the bucket in a file or in the credentials of systemd", () => {
  writeFileSync(join(folder, "claviger-models-s3"), "");
  const env = { CLAVIGER_MODELS_S3: "https://s3.example.org/models" };
  const find = (more: object) => read({ env: { ...env, ...more } }).modelsBucket;
  expect(find({})).toMatchObject({ credentialsFile: undefined, caFile: undefined });
  expect(find({ CREDENTIALS_DIRECTORY: folder })).toMatchObject({
    credentialsFile: join(folder, "claviger-models-s3"),
  });
  expect(
    find({ CLAVIGER_MODELS_S3_CREDENTIALS_FILE: "s3", CLAVIGER_MODELS_S3_CA_FILE: "/etc/ca.crt" }),
  ).toMatchObject({ credentialsFile: "/srv/app/s3", caFile: "/etc/ca.crt" });
});

describe("readConfig() and the TLS of DATABASE_URL", () => {
  const using = (query: string) => ({ env: { DATABASE_URL: `postgres://u:hidden@db/c?${query}` } });

  test("accepts the parameter names of libpq, and certificates from a file", () => {
    const file = fileWith("-----BEGIN CERTIFICATE-----\n");
    const verified = ["sslmode=verify-full", "sslmode=verify-ca", "sslrootcert=system", "ssl=true"];
    const right = [...verified, "sslmode=disable", "sslmode=prefer", "sslmode=require", "application_name=x"];
    const copied = [
      "sslmode=verify-full&channel_binding=require",
      "sslmode=require&channel_binding=prefer&gssencmode=disable&sslsni=1&ssl_min_protocol_version=TLSv1.2",
      "target_session_attrs=read-write&connect_timeout=10&keepalives=1&keepalives_idle=30&load_balance_hosts=disable",
      "options=-c%20jit%3Doff&client_encoding=UTF8",
    ];
    for (const query of [...right, ...copied, `sslmode=verify-full&sslrootcert=${file}`]) {
      expect(read(using(query)).databaseUrl).toEndWith(query);
    }
  });

  test("refuses parameters that would be less safe than they look, and never shows the password", () => {
    const cases: [query: string, why: string][] = [
      ["sslmode=verify_full", "its sslmode must be one of disable, allow, prefer, require, verify-ca and"],
      ["sslmode=", "its sslmode must be one of"],
      ["sslmode=require&channel_binding=require", "its channel_binding=require needs sslmode=verify-full"],
      ["gssencmode=require", "Claviger does not support the value of its parameter gssencmode: remove it"],
      ["sslcert=/client.crt", "Claviger does not support its parameter sslcert: remove it"],
      ["schema=public", "Claviger does not support its parameter schema: remove it; a setting of the server"],
      ["pgbouncer=true", "Claviger does not support its parameter pgbouncer: remove it"],
      ["password=hidden", "Claviger does not support its parameter password: remove it"],
      ["statement_timeout=0", "goes into options=, such as options=-c%20jit%3Doff"],
      ["__proto__=hidden", "Claviger does not support its parameter __proto__: remove it"],
      ["hidden%20hidden=1", "Claviger does not support one of its parameters: remove it"],
      ["sslmode=constructor", "its sslmode must be one of"],
      ["sslmode=require&sslrootcert=/ca.pem", "its sslrootcert needs sslmode=verify-full"],
      ["sslrootcert=/ca.pem", "its sslrootcert needs sslmode=verify-full"],
      ["sslmode=require&sslrootcert=system", "its sslrootcert needs sslmode=verify-full"],
      ["sslmode=verify-full&sslrootcert=ca.pem", "its sslrootcert must be the absolute path of a file"],
      ["sslmode=verify-full&sslrootcert=/nonexistent/ca", "/nonexistent/ca: there is no such file"],
      [`sslmode=verify-full&sslrootcert=${nothing}`, "there is no certificate in PEM form"],
    ];
    for (const [query, why] of cases) {
      const sentence = refusal(using(query));
      expect(sentence).toContain(why);
      expect(sentence).toContain("DATABASE_URL");
      expect(sentence).not.toContain("hidden");
    }
  });
});

describe("readConfig() and unknown names", () => {
  test.each([
    ["CLAVIGER_LIMIT_VALIDAT", "CLAVIGER_LIMIT_VALIDATE"],
    ["CLAVIGER_PROT", "CLAVIGER_PORT"],
    ["CLAVIGER_DATADIR", "CLAVIGER_DATA_DIR"],
    ["CLAVIGER_GITHUB_APPID", "CLAVIGER_GITHUB_APP_ID"],
    ["CLAVIGER_DATABASE_URL", "DATABASE_URL"],
  ])("refuses %s and suggests %s", (name, nearest) => {
    expect(refusal({ env: { [name]: "1" } })).toBe(
      `${name} is not a setting: the nearest is ${nearest}; all settings are listed by ` +
        "`claviger guide settings`; it is set in the environment",
    );
  });

  test("suggests no name if none is similar", () => {
    for (const name of ["CLAVIGER_COLOUR", "CLAVIGER_", `CLAVIGER_${"X".repeat(100_000)}`]) {
      expect(refusal({ env: { [name]: "1" } })).toStartWith(`${name} is not a setting: all settings are`);
    }
  });

  test("refuses an unknown name in the file, whatever its prefix is", () => {
    expect(refusal({ envFile: fileWith("PORT=1\n") })).toStartWith(
      "PORT is not a setting: the nearest is CLAVIGER_PORT;",
    );
  });

  test("ignores unknown names in the environment that do not begin with CLAVIGER_", () => {
    expect(read({ env: { PORT: "1", HOST: "x", LANG: "C" } }).port).toBe(8080);
  });
});

describe("readConfig() and the settings file", () => {
  test("prefers flags to the environment, and the environment to the file", () => {
    const envFile = fileWith("CLAVIGER_PORT=1\nCLAVIGER_HOST=file\nCLAVIGER_BRAND=file\n");
    const env = { CLAVIGER_PORT: "2", CLAVIGER_HOST: "environment" };
    const { port, host, brand } = read({ envFile, env, flags: { CLAVIGER_PORT: "3" } });
    expect({ port, host, brand: brand.name }).toEqual({ port: 3, host: "environment", brand: "file" });
  });

  test("treats an empty value as not set, but refuses an empty flag", () => {
    const envFile = fileWith("CLAVIGER_PORT=1\n");
    expect(read({ envFile, env: { CLAVIGER_PORT: "" } }).port).toBe(1);
    expect(refusal({ flags: { CLAVIGER_PORT: "" } })).toStartWith("CLAVIGER_PORT must be");
  });

  test("reads comments, blank lines, quotes and Windows line ends", () => {
    const lines = ["# a comment", "; another", "", "  CLAVIGER_PORT = no", "CLAVIGER_PORT='1'"];
    expect(refusal({ envFile: fileWith(lines.join("\n")) })).toEndWith("line 4: it must be NAME=value");
    const good = ["# x", "", 'CLAVIGER_HOST="::1"', "CLAVIGER_PORT='1'", "  CLAVIGER_BRAND=acme  "];
    expect(read({ envFile: fileWith(good.join("\r\n")) })).toMatchObject({
      host: "::1",
      port: 1,
      brand: { name: "acme" },
    });
  });

  test("keeps later equals signs and quotes inside a value", () => {
    const envFile = fileWith(`DATABASE_URL=postgres://u@db/c?options=b'c'\n`);
    expect(read({ envFile }).databaseUrl).toBe("postgres://u@db/c?options=b'c'");
  });

  test("refuses a named file that does not exist, is a folder, or is too large", () => {
    expect(refusal({ envFile: "/nowhere/x" })).toBe(
      "Cannot read the settings file: /nowhere/x: there is no such file",
    );
    expect(refusal({ envFile: folder })).toBe(`Cannot read the settings file: ${folder}: it is a folder`);
    const large = fileWith("#".repeat(65_537));
    expect(refusal({ envFile: large })).toContain("has more than 65536 bytes");
  });

  test("refuses the standard file in a folder that this user may not enter, unless the unit gave its settings", () => {
    const closed = join(folder, "closed");
    mkdirSync(closed);
    chmodSync(closed, 0);
    const path = join(closed, "claviger.env");
    const unit = {
      name: "claviger.service",
      oldSettings: new Map(),
      envFiles: [path],
      credentials: new Map(),
      siblings: [],
    };
    const standard = { unit, envFile: undefined };
    asNobody(() => {
      expect(refusal(standard)).toStartWith(
        `Cannot read the settings file: ${path}: this user may not read it; run the command as the user of the service`,
      );
      expect(read({ ...standard, env: { STATE_DIRECTORY: "/state" } }).dataDir).toBe("/state");
    });
    expect(read({ ...standard, unit: { ...unit, envFiles: ["/nowhere/claviger.env"] } }).port).toBe(8080);
    // An ordinary user cannot remove a closed folder that has a file in it.
    chmodSync(closed, 0o700);
  });

  test("reads a pipe, but only up to the size limit", () => {
    const pipe = join(folder, "pipe");
    expect(Bun.spawnSync(["mkfifo", pipe]).exitCode).toBe(0);
    Bun.spawn(["sh", "-c", 'echo CLAVIGER_PORT=1 > "$0"', pipe]);
    expect(read({ envFile: pipe }).port).toBe(1);
    expect(refusal({ envFile: "/dev/zero" })).toContain("has more than 65536 bytes");
  });
});

describe("readConfig() and the secret", () => {
  test("reads the secret from a file", () => {
    const path = fileWith("from a file\n");
    const { secret } = read({ env: { CLAVIGER_SECRET_FILE: path } });
    expect(secret).toMatchObject({ text: "from a file\n", source: `the file ${path}` });
  });

  test("is read from a systemd credential, unless a setting gives it", () => {
    const credentials = join(folder, "credentials");
    mkdirSync(credentials);
    const env = { CREDENTIALS_DIRECTORY: credentials };
    expect(read({ env }).secret).toBeUndefined();
    writeFileSync(join(credentials, "claviger-secret"), "sealed");
    expect(read({ env }).secret).toMatchObject({
      text: "sealed",
      source: "the credential claviger-secret",
    });
    expect(read({ env: { ...env, CLAVIGER_SECRET: "given" } }).secret?.text).toBe("given");
  });

  test("is refused if it is given twice, or if its file cannot be read", () => {
    const both = { CLAVIGER_SECRET: "a", CLAVIGER_SECRET_FILE: "/b" };
    expect(refusal({ env: both })).toBe(
      "CLAVIGER_SECRET and CLAVIGER_SECRET_FILE are both given: leave one of them out",
    );
    expect(refusal({ env: { CLAVIGER_SECRET_FILE: "/nowhere/x" } })).toBe(
      "Cannot read CLAVIGER_SECRET_FILE: /nowhere/x: there is no such file",
    );
  });

  test.skipIf(process.getuid?.() === 0)("is refused if this user may not read its file", () => {
    const path = fileWith("x");
    chmodSync(path, 0);
    expect(refusal({ env: { CLAVIGER_SECRET_FILE: path } })).toContain("this user may not read it");
  });

  test("never appears in a refusal", () => {
    const sentence = refusal({ env: { CLAVIGER_SECRET: "do-not-show", CLAVIGER_PORT: "x" } });
    expect(sentence).not.toContain("do-not-show");
  });
});

describe("readConfig() and the data folder", () => {
  const standard = existsSync("/var/lib/claviger") ? "/var/lib/claviger" : "/srv/app/claviger-data";

  test("comes from the flag, else from the setting, else from systemd's first state directory", () => {
    const env = { CLAVIGER_DATA_DIR: "/setting", STATE_DIRECTORY: "/state/one:/state/two" };
    expect(read({ env, flags: { CLAVIGER_DATA_DIR: "flag" } }).dataDir).toBe("/srv/app/flag");
    expect(read({ env }).dataDir).toBe("/setting");
    expect(read({ env: { ...env, CLAVIGER_DATA_DIR: "" } }).dataDir).toBe("/state/one");
  });

  test("is /var/lib/claviger for root, and for other users if it exists", () => {
    expect(read({ isRoot: true }).dataDir).toBe("/var/lib/claviger");
    expect(read({}).dataDir).toBe(standard);
  });
});
