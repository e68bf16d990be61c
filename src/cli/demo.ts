/** What `serve --demo` adds to an empty database, and the `curl` lines that it shows. */
import { hash } from "node:crypto";
import type { Actor } from "../audit/mod.ts";
import type { Brand } from "../brand.ts";
import { monthOf } from "../calendar.ts";
import type { Config } from "../config.ts";
import { openSession } from "../database/mod.ts";
import { parseId } from "../ids.ts";
import { setInstallerToken } from "../installer/mod.ts";
import {
  countKeys,
  findKey,
  generateApiKey,
  type ImportedKey,
  importKeys,
  revokeKey,
  suspendKey,
} from "../keys/mod.ts";
import { monthlyLimitOf, TIERS, type Tier } from "../licensing/mod.ts";
import { addModel, parseNewModel } from "../models/mod.ts";
import type { OpenInstallation } from "../service.ts";
import { importedUsagePart } from "../usage/mod.ts";
import { orRefuse } from "./run.ts";

export interface DemoKey {
  /** A tier for a key that works, or what is wrong with it. */
  readonly label: string;
  readonly apiKey: string;
}

const DAY_MS = 86_400_000;

/** Adds a test key a tier, one in each other state, four models and an installer token; nothing twice. */
export async function addDemo(
  { installation, database, secrets }: OpenInstallation,
  { brand, userName, now }: { readonly brand: Brand; readonly userName: string; readonly now: Date },
): Promise<readonly DemoKey[] | undefined> {
  if ((await countKeys(database)) > 0) return undefined;
  const actor: Actor = { door: "command", name: userName, reason: "demo" };
  const expiresAt = new Date(now.getTime() + 365 * DAY_MS);
  const free = monthlyLimitOf("free") ?? 0;
  const made = [
    ...TIERS.map((tier) => makeKey(brand, tier, { tier, expiresAt })),
    makeKey(brand, "expired", { tier: "research", expiresAt: new Date(now.getTime() - DAY_MS) }),
    makeKey(brand, "suspended", { tier: "research", expiresAt }),
    makeKey(brand, "revoked", { tier: "research", expiresAt }),
    makeKey(brand, "quota used up", { tier: "free", expiresAt, used: free }),
  ];
  const session = openSession(installation.address, { statementTimeoutMs: 10_000 });
  try {
    const month = monthOf(now.getTime());
    const keys = made.map(({ key }, index) => ({ key, line: index + 1 }));
    orRefuse(
      await importKeys(session, keys, { actor, now, usagePart: (sql) => importedUsagePart(sql, month) }),
    );
  } finally {
    await session.close();
  }
  for (const { label, key } of made) {
    if (label !== "suspended" && label !== "revoked") continue;
    const found = await findKey(database, { hash: key.hash }, { now });
    const uuid = parseId("key", found?.id ?? "") ?? "";
    orRefuse(
      await (label === "revoked"
        ? revokeKey(database, { uuid }, { actor, now })
        : suspendKey(database, uuid, { actor, now })),
    );
  }
  for (const model of models(brand))
    orRefuse(await addModel(database, orRefuse(parseNewModel(model, brand)), { actor, now }));
  orRefuse(
    await setInstallerToken(
      database,
      { token: "demo-repository-token", expiresAt: null },
      { secrets, actor, now },
    ),
  );
  return made.map(({ label, apiKey }) => ({ label, apiKey }));
}

function makeKey(
  brand: Brand,
  label: string,
  license: { readonly tier: Tier; readonly expiresAt: Date; readonly used?: number },
): DemoKey & { readonly key: ImportedKey } {
  const { apiKey, hash, hint } = generateApiKey(brand, "test");
  const email = `${label.replaceAll(" ", "-")}@demo.example`;
  const key = {
    hash,
    hint,
    mode: "test",
    email,
    organization: "Demo",
    monthlyLimit: null,
    used: 0,
    ...license,
  } as const;
  return { label, apiKey, key };
}

/** The public models of the contract's decisions; their files are made up. */
function models(brand: Brand): readonly object[] {
  const [lda, qda = lda, probit = lda] = brand.modelTypes;
  const model = (name: string, rest: object) => ({
    name,
    version: "1.0.0",
    downloadUrl: `https://models.example/${name}.onnx`,
    checksum: hash("sha256", name, "hex"),
    ...rest,
  });
  return [
    model("motor_imagery_4class_v1", {
      type: lda,
      paradigm: "motor_imagery",
      nFeatures: 44,
      nClasses: 4,
      sizeMb: 2.4,
      requiresLicense: "free",
      metadata: { description: "Left hand, right hand, feet and tongue", training_subjects: 9 },
    }),
    model("motor_imagery_2class_v1", {
      type: lda,
      paradigm: "motor_imagery",
      nFeatures: 22,
      nClasses: 2,
      sizeMb: 1.1,
      requiresLicense: "free",
      metadata: { description: "Left hand and right hand", training_subjects: 9 },
    }),
    model("p300_binary_v1", {
      type: probit,
      paradigm: "p300",
      nFeatures: 128,
      nClasses: 2,
      sizeMb: 3.8,
      requiresLicense: "research",
      metadata: { description: "Target and non-target", recommended_use: "spellers" },
    }),
    model("ssvep_multiclass_v1", {
      type: qda,
      paradigm: "ssvep",
      nFeatures: 96,
      nClasses: 8,
      sizeMb: 5.2,
      requiresLicense: "research",
      metadata: { description: "Eight flicker frequencies" },
    }),
  ];
}

/** The keys, and lines that work as they stand. */
export function renderDemo(
  keys: readonly DemoKey[],
  { address, config }: { readonly address: string; readonly config: Config },
): string {
  const width = Math.max(...keys.map(({ label }) => label.length));
  const keyOf = (label: string) => keys.find((key) => key.label === label)?.apiKey ?? "";
  const research = keyOf("research");
  const post = (path: string, body: object) => `curl -s ${address}${path} -d '${JSON.stringify(body)}'`;
  const host = config.brand.installerHost;
  return [
    "",
    "Demo keys, shown this once:",
    ...keys.map(({ label, apiKey }) => `  ${label.padEnd(width)}  ${apiKey}`),
    "",
    "Try:",
    `  ${post("/v1/auth/validate", { api_key: research })}`,
    `  ${post("/v1/auth/refresh", { api_key: research })}`,
    `  curl -s -H 'X-API-Key: ${research}' ${address}/v1/models/list`,
    `  curl -s -H 'X-API-Key: ${research}' ${address}/v1/installer/${host}-token`,
    `  ${post("/v1/analytics/log", { api_key: research, event_type: "inference", duration_ms: 12.5 })}`,
    `  ${post("/v1/auth/revoke", { api_key: keyOf("free"), reason: "tried it" })}`,
    `  curl -s ${address}/api/health`,
    "",
    "",
  ].join("\n");
}
