/**
 * The actors of generated requests: keys in every state, models with files, links to those files, and the
 * installer's token. A request names each by its role, so that it means the same when it is sent again.
 */

import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { clearInstallerToken } from "../../src/models/repository_token/mod.ts";
import { addHostedModel, type HostingService, PUBLIC_URL, testBytes } from "../support/hosted.ts";
import { INSTALLER_TOKEN, setToken } from "../support/installer.ts";
import { issueIn, issueUsedUp, UNKNOWN_KEY, uuidOf } from "../support/keys.ts";
import { setPlaces } from "../support/machines.ts";
import { addTestModel } from "../support/models.ts";
import { TEST_SECRET } from "../support/secrets.ts";

const ROLES = [
  "active",
  "hot",
  "scarce",
  "usedUp",
  "expired",
  "suspended",
  "revoked",
  "unknown",
  "malformed",
  "none",
] as const;
export type Role = (typeof ROLES)[number];

/** A secret that no place may contain, and its name for messages of failure. */
export interface Secret {
  readonly name: string;
  readonly value: string;
}

export interface Actors {
  /** Returns a key of the role; "" for the role "none". For a path that revokes, it is a disposable key. */
  keyOf(role: Role, options: { readonly pick: number; readonly isRevoked: boolean }): string;
  /** Returns the path and the query of a link that is valid, expired or forged. */
  linkOf(pick: number): string;
  readonly models: readonly HostedModel[];
  /** Finds the identifiers of an issued key; undefined for any other key. */
  find(apiKey: string): { readonly uuid: string; readonly licenseUuid: string } | undefined;
  readonly isTokenSet: boolean;
  readonly secrets: readonly Secret[];
  /** Marks a key as revoked over HTTP. */
  noteRevoked(apiKey: string): void;
  /** Replaces revoked keys, makes new links, and sets or clears the token; to be called between two batches. */
  renew(): Promise<void>;
  /** Replaces all disposable keys, for when it is not known which of them are revoked. */
  replaceDisposable(): Promise<void>;
}

export interface HostedModel {
  readonly name: string;
  readonly version: string;
  readonly bytes: Uint8Array;
}

/** The size of each file. */
const FILE_BYTES = 4_096;
const ACTIVE = 24;
const DISPOSABLE = 60;

export async function createActors(service: HostingService): Promise<Actors> {
  const issued = new Map<string, { readonly uuid: string; readonly licenseUuid: string }>();
  const secrets: Secret[] = [
    { name: "installer token", value: INSTALLER_TOKEN },
    { name: "root secret", value: TEST_SECRET },
    { name: "root secret as bytes", value: Buffer.from(TEST_SECRET, "hex").toString("base64") },
  ];
  function register(key: IssuedKey): string {
    issued.set(key.apiKey, { uuid: uuidOf(key), licenseUuid: key.licenseUuid });
    secrets.push({ name: `key ${key.id}`, value: key.apiKey });
    return key.apiKey;
  }
  const many = async (count: number, make: (index: number) => Promise<IssuedKey>) => {
    const keys: string[] = [];
    for (let index = 0; index < count; index++) keys.push(register(await make(index)));
    return keys;
  };
  /** Every second license counts machines; half of these have seats that end. */
  async function issueActive(index: number): Promise<IssuedKey> {
    const limits = { tier: TIERS[index % 4]!, mode: modes[index % 2]!, monthlyLimit: 1e9 };
    const key = await service.issue(limits);
    const seatMinutes = index % 4 === 1 ? 5 : null;
    if (index % 2 === 1) await setPlaces(service.database, key.licenseUuid, { maxMachines: 2, seatMinutes });
    return key;
  }
  const TIERS = ["free", "research", "commercial", "enterprise"] as const;
  const modes = ["live", "test"] as const;
  const keys: Record<Role, string[]> = {
    active: await many(ACTIVE, (index) => issueActive(index)),
    hot: await many(1, () => service.issue({ tier: "enterprise" })),
    scarce: await many(8, (index) => service.issue({ monthlyLimit: 100 * (index + 1) })),
    usedUp: await many(3, () => issueUsedUp(service)),
    expired: await many(3, () => issueIn(service, "expired")),
    suspended: await many(3, () => issueIn(service, "suspended")),
    revoked: await many(3, () => issueIn(service, "revoked")),
    unknown: [UNKNOWN_KEY, UNKNOWN_KEY.replace("live", "test"), `svc_live_${"f".repeat(48)}`],
    malformed: ["svc_live_", "svc_prod_0", "a", `${UNKNOWN_KEY}0`, UNKNOWN_KEY.toUpperCase(), "svc_live_%30"],
    none: [""],
  };
  for (const value of keys.unknown) secrets.push({ name: "unknown key", value });
  const disposable = await many(DISPOSABLE, () => service.issue());
  /** The number of revoked keys, which stand at the start of `disposable`. */
  let revokedCount = 0;

  const models: HostedModel[] = [];
  for (const [index, requiresLicense] of (["free", "research", "commercial"] as const).entries()) {
    const model = { name: `hosted_${index}`, version: "1.0.0", bytes: testBytes(FILE_BYTES, index + 1) };
    await addHostedModel(service, { ...model, requiresLicense }, model.bytes);
    models.push(model);
  }
  await addTestModel(service, { name: "elsewhere", metadata: { accuracy: 0.9 } });
  await setToken(service);
  let isTokenSet = true;

  // These keys only list links, so that no generated request can fill their windows.
  const readers = await many(2, (index) => service.issue({ tier: TIERS[index + 2]! }));
  let links: string[] = [];
  const stale: string[] = [];
  async function listLinks(): Promise<void> {
    if (links[0] !== undefined && stale.length < 4) stale.push(links[0]);
    links = [];
    for (const apiKey of readers) {
      const { body } = await service.get("/v1/models/list", { "X-API-Key": apiKey });
      const addresses: string[] = body.models.map((model: { download_url: string }) => model.download_url);
      links.push(...addresses.filter((each) => each.startsWith(PUBLIC_URL)).map(toTarget));
    }
    for (const link of links) {
      const value = new URLSearchParams(link.slice(link.indexOf("?"))).get("signature") ?? "";
      secrets.push({ name: "signature", value });
    }
  }
  const toTarget = (address: string) => address.slice(PUBLIC_URL.length);
  await listLinks();

  return {
    models,
    secrets,
    get isTokenSet() {
      return isTokenSet;
    },
    keyOf(role, { pick, isRevoked }) {
      // A revocation cannot change these roles. In any other role it would take a key from later requests.
      const isUnrevocable = ["revoked", "unknown", "malformed", "none"].includes(role);
      const pool = isRevoked && !isUnrevocable ? disposable.slice(revokedCount) : keys[role];
      return pool[pick % pool.length] ?? UNKNOWN_KEY;
    },
    linkOf(pick) {
      const link = links[pick % links.length]!;
      if (pick % 7 === 5) return stale[pick % Math.max(1, stale.length)] ?? link;
      // A forged link: another model's path with the same signature.
      if (pick % 7 === 6) return link.replace(/hosted_\d/, `hosted_${(pick >> 3) % 3}`);
      return link;
    },
    find: (apiKey) => issued.get(apiKey),
    noteRevoked(apiKey) {
      const at = disposable.indexOf(apiKey);
      if (at < 0) return;
      // The revoked keys come first.
      disposable[at] = disposable[revokedCount]!;
      disposable[revokedCount++] = apiKey;
    },
    async replaceDisposable() {
      disposable.splice(0, DISPOSABLE, ...(await many(DISPOSABLE, () => service.issue())));
      revokedCount = 0;
    },
    async renew() {
      if (revokedCount > DISPOSABLE / 3) {
        disposable.splice(0, revokedCount, ...(await many(revokedCount, () => service.issue())));
        revokedCount = 0;
      }
      await listLinks();
      isTokenSet = !isTokenSet;
      if (isTokenSet) await setToken(service);
      else {
        const actor = { kind: "command", name: "test" } as const;
        await clearInstallerToken(service.database, { actor, now: service.clock.now() });
      }
    },
  };
}
