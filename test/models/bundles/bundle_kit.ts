/** Makes bundles for tests: with a database, a signer and hosted models, as a command makes them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseId } from "../../../src/base/ids.ts";
import {
  createLicenseSigner,
  ensureSigningKeys,
  listSigningKeys,
} from "../../../src/licensing/signed_licenses/mod.ts";
import { planBundle, readBundle, sealBundle } from "../../../src/models/bundles/mod.ts";
import { storeFile } from "../../../src/models/mod.ts";
import { ACTOR, BRAND, issue, NOW, orThrow } from "../../support/issue.ts";
import { addNewModel } from "../../support/new_model.ts";
import { testFolder } from "../../support/postgres.ts";
import { openSecrets } from "../../support/secrets.ts";
import { createDatabase } from "../../support/use.ts";

const OFFLINE_DAYS = { free: 0, research: 0, commercial: 0, enterprise: 0 };

export type BundleKit = Awaited<ReturnType<typeof createBundleKit>>;

export async function createBundleKit() {
  const database = await createDatabase();
  const dataDir = mkdtempSync(join(testFolder(), "bundles-"));
  const secrets = openSecrets();
  await ensureSigningKeys(database, { secrets, now: NOW });
  const signing = { database, brand: BRAND, publicUrl: undefined, offlineDays: OFFLINE_DAYS, secrets };
  const signer = createLicenseSigner(signing);
  const place = { dataDir };

  async function listTrusted() {
    return (await listSigningKeys(database)).map(({ publicKey }) => publicKey);
  }

  return {
    database,
    dataDir,
    signer,
    place,
    listTrusted,
    /** Writes a file beside the models, and returns its path. */
    write(name: string, bytes: string | Uint8Array): string {
      const path = join(dataDir, name);
      writeFileSync(path, bytes);
      return path;
    },
    /** Hosts a model, as `models add --file` does. */
    async host(
      fields: { readonly name: string; readonly [field: string]: unknown },
      bytes: string | Uint8Array,
    ) {
      const path = join(dataDir, "source");
      writeFileSync(path, bytes);
      const stored = orThrow(await storeFile(place, path, { now: NOW, onProgress() {} }));
      const hosted = { downloadUrl: null, checksum: stored.sha256, hostedBytes: stored.sizeBytes };
      await addNewModel(database, { sizeMb: stored.sizeBytes / 1e6, ...hosted, ...fields }, { now: NOW });
      return stored;
    },
    /** Issues a key and returns its UUID. */
    async issueUuid(request: Parameters<typeof issue>[1] = {}): Promise<string> {
      return parseId("key", (await issue(database, request)).id) ?? "";
    },
    /** Makes a bundle of a plan. */
    async make(keyUuid: string, plan: Partial<Parameters<typeof planBundle>[1]> = {}, request: object = {}) {
      const planned = orThrow(await planBundle(database, { place, keyUuid, now: NOW, ...plan }));
      const sealed = orThrow(
        await sealBundle(signer, planned, { keyUuid, days: 30, actor: ACTOR, now: NOW, ...request }),
      );
      const chunks: Uint8Array[] = [];
      // A chunk is valid until the next one is read.
      for await (const chunk of sealed.read()) chunks.push(chunk.slice());
      return { ...sealed, bytes: Buffer.concat(chunks) };
    },
    /** Counts what an export leaves: notes, rows of the audit log, and machines. */
    async countExports() {
      const [row] = await database.query<Record<string, number>>(
        (sql) => sql`
          select (select count(*) from exported_licenses) as exports, (select count(*) from machines) as machines,
                 (select count(*) from audit where action = 'license.export') as audit`,
      );
      return row ?? {};
    },
    async close() {
      await database.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

export async function* inOneChunk(bytes: Uint8Array) {
  yield bytes;
}

/** Reads a bundle at the time at which the kit makes them. */
export async function readWhole(bytes: Uint8Array, trusted: readonly string[], now = NOW) {
  return await readBundle(inOneChunk(bytes), { trusted, audience: "svc", now });
}

/** Tells whether bytes are accepted as a bundle whose license is valid now. */
export async function isAccepted(bytes: Uint8Array, trusted: readonly string[]): Promise<boolean> {
  const read = await readWhole(bytes, trusted);
  return read.ok && read.why === undefined;
}
