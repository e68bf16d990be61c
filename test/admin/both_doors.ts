/** Every change that a command and the API can make, for the test that both leave the same rows. */

/** A key that both doors change in turn. */
export interface Subject {
  readonly email: string;
  /** Unique to the door, for the names of models. */
  readonly door: string;
  id: string;
  /** The newest key, and the machines that were activated or signed for last. */
  api_key: string;
  machines: string[];
  license_id: string;
  user_id: string;
  /** The keys that were issued before, the oldest first. */
  readonly older: string[];
}

export interface Change {
  readonly command: (subject: Subject) => string[];
  readonly request: (subject: Subject) => readonly [method: string, path: string, body: object];
  /** True if the answer has the id of another key, which the further changes are for. */
  readonly isNew?: boolean;
  /** So many machines of the key are activated before the change. */
  readonly activates?: number;
}

const REASON = 'a "reason" with <b>, \' and \\ in it';
const onKey = (verb: string, options: readonly string[] = [], body: object = {}): Change => ({
  command: ({ id }) => ["keys", verb, id, ...options, "--reason", REASON],
  request: ({ id }) => ["POST", `/keys/${id}/${verb}`, { ...body, reason: REASON }],
});
const onLicense = (command: readonly string[], body: object): Change => ({
  command: ({ id }) => ["keys", command[0] ?? "", id, ...command.slice(1), "--reason", REASON],
  request: ({ license_id }) => ["PATCH", `/licenses/${license_id}`, { ...body, reason: REASON }],
});

const MODEL = {
  type: "SvcLDA",
  n_features: 4,
  n_classes: 2,
  requires_license: "commercial",
  paradigm: "p300",
  size_mb: 0.5,
  url: "https://models.example/m.onnx",
  sha256: "ab".repeat(32),
};

const fields = {
  name: "Ada",
  organization: "Engines",
  mode: "test",
  "monthly-limit": 9,
  "max-machines": 30,
  "seat-minutes": 15,
  "self-releases": 4,
  "max-offline-days": 14,
  "expires-at": "2099-01-01",
  "updates-until": "2098-01-01",
};
const OWN = {
  own_features: { custom_models: { granted: true, until: "2097-01-01" }, streaming: { granted: false } },
  own_entitlements: { channels: 64, region: "eu" },
};
export const CHANGES: readonly (readonly [name: string, Change])[] = [
  [
    "issue with every field",
    {
      command: ({ email }) => [
        ...["keys", "issue", "--email", email, "--tier", "free", "--external-id", `order of ${email}`],
        ...Object.entries(fields).flatMap(([name, value]) => [`--${name}`, String(value)]),
        ...[
          "--features",
          "custom_models until 2097-01-01, no streaming",
          "--values",
          "channels=64, region=eu",
        ],
      ],
      request: ({ email }) => {
        const named = Object.entries(fields).map(([name, value]) => [name.replaceAll("-", "_"), value]);
        const body = {
          email,
          tier: "free",
          external_id: `order of ${email}`,
          ...OWN,
          ...Object.fromEntries(named),
        };
        return ["POST", "/keys", body];
      },
      isNew: true,
    },
  ],
  [
    "release of many machines",
    {
      activates: 2,
      command: ({ id }) => ["machines", "release-all", "--key", id, "--reason", REASON],
      request: ({ machines }) => ["POST", "/machines/release", { ids: machines, reason: REASON }],
    },
  ],
  [
    "export for a machine",
    {
      command: ({ id }) => ["licenses", "export", id, "--days", "9", "--fingerprint", "lost-laptop"],
      request: ({ id }) => ["POST", `/keys/${id}/license`, { days: 9, fingerprint: "lost-laptop" }],
    },
  ],
  [
    "freeing of its place",
    {
      command: ({ machines }) => ["machines", "free", machines[0] ?? "", "--reason", REASON],
      request: ({ machines }) => ["POST", `/machines/${machines[0]}/free`, { reason: REASON }],
    },
  ],
  ["suspend", onKey("suspend")],
  ["resume", onKey("resume")],
  ["tier", onLicense(["tier", "research"], { tier: "research" })],
  ["the same tier", onLicense(["tier", "research"], { tier: "research" })],
  ["limit", onLicense(["limit", "7"], { monthly_limit: 7 })],
  ["the tier's limit", onLicense(["limit", "none"], { monthly_limit: null })],
  ["fewer machines", onLicense(["machines", "--max-machines", "29"], { max_machines: 29 })],
  ["other seats", onLicense(["machines", "--seat-minutes", "30"], { seat_minutes: 30 })],
  ["the same seats", onLicense(["machines", "--seat-minutes", "30"], { seat_minutes: 30 })],
  ["node-locked machines", onLicense(["machines", "--seat-minutes", "none"], { seat_minutes: null })],
  [
    "machines that are not counted",
    onLicense(["machines", "--max-machines", "none"], { max_machines: null }),
  ],
  ["releases by clients", onLicense(["machines", "--self-releases", "0"], { self_releases: 0 })],
  ["names for clients", onLicense(["machines", "--shows-machines", "yes"], { shows_machines: true })],
  ["the usual names", onLicense(["machines", "--shows-machines", "none"], { shows_machines: null })],
  ["no offline days", onLicense(["offline", "0"], { max_offline_days: 0 })],
  ["the tier's offline days", onLicense(["offline", "none"], { max_offline_days: null })],
  [
    "renewal of the account",
    {
      command: ({ user_id }) => ["accounts", "renew", user_id, "--reason", REASON],
      request: ({ user_id }) => ["POST", `/accounts/${user_id}/renew`, { reason: REASON }],
    },
  ],
  ["renew", onLicense(["renew", "--expires-at", "never"], { expires_at: "never" })],
  [
    "earlier expiry",
    onLicense(["renew", "--expires-at", "2099-01-01", "--shorten"], {
      expires_at: "2099-01-01T23:59:59Z",
      shorten: true,
    }),
  ],
  ["every update", onLicense(["updates", "none"], { updates_until: null })],
  [
    "earlier end of updates",
    onLicense(["updates", "2097-01-01", "--shorten"], { updates_until: "2097-01-01", shorten: true }),
  ],
  ["later end of updates", onLicense(["updates", "2097-02-01"], { updates_until: "2097-02-01" })],
  [
    "features until a day",
    onLicense(["feature", "+training,no model_export", "--until", "2096-01-01"], {
      own_features: {
        training: { granted: true, until: "2096-01-01" },
        model_export: { granted: false, until: "2096-01-01" },
      },
    }),
  ],
  [
    "an earlier end of a feature",
    onLicense(["feature", "training until 2095-01-01", "--shorten"], {
      own_features: { training: { granted: true, until: "2095-01-01" } },
      shorten: true,
    }),
  ],
  [
    "a feature as the tier has it",
    onLicense(["feature", "streaming", "--as-tier"], { own_features: { streaming: null } }),
  ],
  [
    "values",
    onLicense(["value", "channels=32,beta=true,region="], {
      own_entitlements: { channels: 32, beta: true, region: null },
    }),
  ],
  ["rotate", { ...onKey("rotate", ["--overlap", "2d"], { overlap: "2d" }), isNew: true }],
  [
    "export of a license",
    {
      command: ({ id }) => [
        ...["licenses", "export", id, "--days", "9", "--fingerprint", "a b", "--nonce", "n"],
        ...["--reason", REASON],
      ],
      request: ({ id }) => [
        "POST",
        `/keys/${id}/license`,
        { days: 9, fingerprint: "a b", nonce: "n", reason: REASON },
      ],
    },
  ],
  [
    "bundle of a license",
    {
      command: ({ id }) => [
        ...["bundle", "make", "--key", id, "--days", "9", "--fingerprint", "a b", "--without-models"],
        ...["--to", "bundle.tar", "--reason", REASON],
      ],
      request: ({ id }) => [
        "POST",
        `/keys/${id}/bundle`,
        { days: 9, fingerprint: "a b", models: [], reason: REASON },
      ],
    },
  ],
  ["revoke", onKey("revoke")],
  ["replace", { ...onKey("replace"), isNew: true }],
  ["revocation of the replacement", onKey("revoke")],
  [
    "issue a license that starts on its first use",
    {
      command: ({ email }) => [
        ...["keys", "issue", "--email", email, "--tier", "free", "--starts-on-first-use"],
        ...["--term-days", "30", "--latest-start", "2098-01-01"],
      ],
      request: ({ email }) => [
        "POST",
        "/keys",
        { email, tier: "free", starts_on_first_use: true, term_days: 30, latest_start: "2098-01-01" },
      ],
      isNew: true,
    },
  ],
  ["an expiry in place of the term", onLicense(["renew", "--expires-at", "never"], { expires_at: "never" })],
  ["revocation of the key with a term", onKey("revoke")],
  [
    "issue with the defaults",
    {
      command: ({ email }) => ["keys", "issue", "--email", email, "--tier", "enterprise"],
      request: ({ email }) => ["POST", "/keys", { email, tier: "enterprise" }],
      isNew: true,
    },
  ],
  ["rotate with the default overlap", { ...onKey("rotate"), isNew: true }],
  [
    "update of the account",
    {
      command: ({ user_id }) => ["accounts", "update", user_id, "--name", "Augusta", "--organization", ""],
      request: ({ user_id }) => ["PATCH", `/accounts/${user_id}`, { name: "Augusta", organization: "" }],
    },
  ],
  [
    "addition of a model",
    {
      command: ({ door, user_id }) => [
        ...["models", "add", "--name", `of-${door}`, "--version", "1.0.0", "--owner", user_id],
        ...Object.entries(MODEL).flatMap(([name, value]) => [
          `--${name.replaceAll("_", "-")}`,
          String(value),
        ]),
      ],
      request: ({ door, user_id }) => {
        const { sha256, ...rest } = MODEL;
        const body = {
          name: `of-${door}`,
          version: "1.0.0",
          owner: user_id,
          checksum: `sha256:${sha256}`,
          ...rest,
        };
        return ["POST", "/models", body];
      },
    },
  ],
  [
    "removal of a model",
    {
      command: ({ door }) => ["models", "remove", `of-${door}`],
      request: ({ door }) => ["DELETE", `/models/of-${door}`, {}],
    },
  ],
  [
    "retirement of a version",
    {
      command: ({ door }) => ["models", "retire", `of-${door}`, "1.0.0"],
      request: ({ door }) => ["POST", `/models/of-${door}/1.0.0/retire`, {}],
    },
  ],
  [
    "another e-mail of the account",
    {
      command: ({ email, user_id }) => ["accounts", "update", user_id, "--email", `new-${email}`],
      request: ({ email, user_id }) => ["PATCH", `/accounts/${user_id}`, { email: `new-${email}` }],
    },
  ],
  ["revoke the last key", onKey("revoke")],
  ["revoke the key that was rotated", onOlder(-1)],
  ["revoke the first key", onOlder(0)],
  [
    "erasure of the account",
    {
      command: ({ user_id }) => ["accounts", "erase", user_id, "--reason", REASON],
      request: ({ user_id }) => ["POST", `/accounts/${user_id}/erase`, { reason: REASON }],
    },
  ],
];

/** Revokes a key that was issued before. */
function onOlder(index: number): Change {
  const of = (subject: Subject) => ({ ...subject, id: subject.older.at(index) ?? "" });
  const { command, request } = onKey("revoke");
  return { command: (subject) => command(of(subject)), request: (subject) => request(of(subject)) };
}
