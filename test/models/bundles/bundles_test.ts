/** Bundles: what is in them, who can read them, and what is refused. */
import { beforeAll, describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isRefusal } from "../../../src/base/refusal.ts";
import { readTar } from "../../../src/base/ustar.ts";
import { suspendKey } from "../../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../../src/licensing/mod.ts";
import { generateKeyPair } from "../../../src/licensing/signed_licenses/jws.ts";
import { checkLicense, verifyManifest, verifySignature } from "../../../src/licensing/signed_licenses/mod.ts";
import { type AddedFile, nameBundle, planBundle, sealBundle } from "../../../src/models/bundles/mod.ts";
import { pathOfFile } from "../../../src/models/mod.ts";
import { ACTOR, NOW, orThrow, sentenceOf } from "../../support/issue.ts";
import { licenseWith } from "../../support/machines.ts";
import { addNewModel } from "../../support/new_model.ts";
import { useForAll } from "../../support/use.ts";
import { createBundleKit, inOneChunk, isAccepted, readWhole } from "./bundle_kit.ts";

const kit = useForAll(createBundleKit);
let sha256: string;
beforeAll(async () => {
  ({ sha256 } = await kit.host({ name: "wave", version: "2.0.0", fileName: "wave.onnx" }, "wave two"));
  await kit.host({ name: "costly", requiresLicense: "enterprise" }, "not for research");
});

/** Returns the files of a tar as texts. */
async function textsOf(bytes: Uint8Array): Promise<Record<string, string>> {
  const texts: Record<string, string> = {};
  for await (const { path, content } of readTar(inOneChunk(bytes))) {
    let text = "";
    for await (const chunk of content()) text += Buffer.from(chunk).toString("latin1");
    texts[path] = text;
  }
  return texts;
}

describe("a bundle", () => {
  test("has the license, the models that the license may load, added files, and a manifest that names them", async () => {
    const keyUuid = await kit.issueUuid();
    const files: AddedFile[] = [{ name: "core_1.0+2.whl", path: kit.write("core.whl", "the core package") }];
    const { bytes, signed, sizeBytes } = await kit.make(keyUuid, { files }, { fingerprint: "workstation-7" });
    expect(bytes.length).toBe(sizeBytes);
    const texts = await textsOf(bytes);
    // Other tests have models, too.
    const names = ["manifest.jws", "files/core_1.0+2.whl", "license.jws", "models/wave-2.0.0.onnx"];
    expect(Object.keys(texts).filter((path) => names.includes(path))).toEqual(names);
    expect(Object.keys(texts).join()).not.toContain("costly");
    expect(texts["license.jws"]).toBe(`${signed.license}\n`);
    expect(texts["models/wave-2.0.0.onnx"]).toBe("wave two");
    const { kid, claims } = signed;
    const read = await readWhole(bytes, await kit.listTrusted());
    const license = { path: "license.jws", size: signed.license.length + 1, kind: "license" };
    expect(read).toMatchObject({
      ok: true,
      kid,
      why: undefined,
      manifest: {
        iss: "svc",
        aud: "svc",
        iat: NOW.getTime() / 1_000,
        jti: claims.jti,
        license_id: claims.sub,
        key_id: claims.key_id,
        fingerprint: "workstation-7",
        files: expect.arrayContaining([
          {
            path: "files/core_1.0+2.whl",
            size: 16,
            sha256: hash("sha256", "the core package"),
            kind: "file",
          },
          { ...license, sha256: hash("sha256", `${signed.license}\n`) },
          { path: "models/wave-2.0.0.onnx", size: 8, sha256, kind: "model", name: "wave", version: "2.0.0" },
        ]),
      },
    });
    expect(read.ok && read.files.every(({ isRight }) => isRight)).toBe(true);
  });

  test("is the same bytes for the same license, and any tar opens it", async () => {
    const keyUuid = await kit.issueUuid();
    const sealed = await kit.make(keyUuid, { models: ["wave"] });
    const again: Uint8Array[] = [];
    for await (const chunk of sealed.read()) again.push(chunk.slice());
    expect(Buffer.concat(again)).toEqual(sealed.bytes);
    const folder = mkdtempSync(join(tmpdir(), "claviger-bundle-"));
    try {
      writeFileSync(join(folder, "b.tar"), sealed.bytes);
      const { exitCode } = Bun.spawnSync(["tar", "-xf", "b.tar"], { cwd: folder });
      expect(exitCode).toBe(0);
      expect(readFileSync(join(folder, "models/wave-2.0.0.onnx"), "utf8")).toBe("wave two");
      expect(readFileSync(join(folder, "license.jws"), "utf8")).toBe(`${sealed.signed.license}\n`);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("leaves what an export of the license leaves: a note, a row of the audit log and a place", async () => {
    const { keyUuid } = await licenseWith(kit.database, { maxMachines: 1 });
    const before = await kit.countExports();
    const { signed } = await kit.make(keyUuid, { models: [] }, { fingerprint: "workstation-7" });
    const after = await kit.countExports();
    expect(after).toEqual({
      exports: (before.exports ?? 0) + 1,
      machines: (before.machines ?? 0) + 1,
      audit: (before.audit ?? 0) + 1,
    });
    expect(signed.claims.machine_id).toMatch(/^mch_/);
    const full = await sealBundle(
      kit.signer,
      { sources: [], elsewhere: [] },
      {
        ...{ keyUuid, fingerprint: "workstation-8", actor: ACTOR, now: NOW },
      },
    );
    expect(sentenceOf(full)).toContain("1 of 1 places for machines are taken");
    expect(await kit.countExports()).toEqual(after);
  });

  test("has models in the version that the license has, also after its updates have ended", async () => {
    const later = new Date(NOW.getTime() + 60_000);
    await kit.host({ name: "old_and_new", version: "1" }, "one");
    const keyUuid = await kit.issueUuid({ updatesUntil: NOW });
    await kit.database.query(
      (sql) => sql`update model_versions set created_at = ${NOW}::timestamptz where version = '1'`,
    );
    const stored = await kit.host({ name: "another" }, "two");
    const fields = { name: "old_and_new", version: "2", downloadUrl: null, checksum: stored.sha256 };
    await addNewModel(kit.database, { ...fields, hostedBytes: 3, sizeMb: 3e-6 }, { now: later });
    await kit.database.query(
      (sql) => sql`update model_versions set created_at = ${later}::timestamptz where version = '2'`,
    );
    const { bytes } = await kit.make(keyUuid, { models: ["old_and_new"] });
    expect(Object.keys(await textsOf(bytes))).toContain("models/old_and_new-1");
    const newer = await kit.make(await kit.issueUuid(), { models: ["old_and_new"] });
    expect(Object.keys(await textsOf(newer.bytes))).toContain("models/old_and_new-2");
  });
});

describe("planBundle() and sealBundle() refuse, and change nothing:", () => {
  async function refusedPlan(options: Partial<Parameters<typeof planBundle>[1]>) {
    const before = await kit.countExports();
    const keyUuid = options.keyUuid ?? (await kit.issueUuid());
    const plan = await planBundle(kit.database, { place: kit.place, keyUuid, now: NOW, ...options });
    expect(await kit.countExports()).toEqual(before);
    return isRefusal(plan) ? [plan.code, plan.sentence, plan.fields?.[0]?.field] : plan;
  }

  test("an unknown key", async () => {
    const [code] = (await refusedPlan({ keyUuid: "00000000-0000-7000-8000-000000000000" })) as string[];
    expect(code).toBe("KEY_NOT_FOUND");
  });

  test("a model that the license may not load, that is unknown, or that is not hosted here, and says which it is", async () => {
    const wrong = (why: string) => ["INVALID_REQUEST", `Cannot make bundle: ${why}`, "models"];
    expect(await refusedPlan({ models: ["wave", "costly"] })).toEqual(
      wrong(
        "the license may not load costly: the model needs the tier enterprise, and the license has research",
      ),
    );
    expect(await refusedPlan({ models: ["nothing"] })).toEqual(
      wrong("there is no model that is named nothing"),
    );
    const { owner } = { owner: await kit.issueUuid({ tier: "commercial" }) };
    const [account] = await kit.database.query<{ uuid: string }>(
      (sql) =>
        sql`select l.account_id as uuid from keys k join licenses l on l.id = k.license_id where k.id = ${owner}::uuid`,
    );
    const custom = { name: "custom", requiresLicense: "commercial", ownerUuid: account?.uuid };
    await kit.host(custom, "theirs");
    expect(await refusedPlan({ models: ["custom"] })).toEqual(
      wrong("the model custom belongs to another account"),
    );
    const theirs = await kit.make(owner, { models: ["custom"] });
    expect(Object.keys(await textsOf(theirs.bytes))).toContain("models/custom-1.0.0");
    await addNewModel(kit.database, { name: "elsewhere" }, { now: NOW });
    expect(await refusedPlan({ models: ["elsewhere"] })).toEqual([
      "INVALID_REQUEST",
      "Cannot make bundle: the file of elsewhere is not hosted here",
      "models",
    ]);
    const all = orThrow(
      await planBundle(kit.database, { place: kit.place, keyUuid: await kit.issueUuid(), now: NOW }),
    );
    expect(all.elsewhere).toEqual(["elsewhere"]);
  });

  test("a model without a listed version, without its file, after the end of the updates, or without the feature for it", async () => {
    await addNewModel(kit.database, { name: "withdrawn" }, { now: NOW });
    await kit.database.query((sql) => sql`update models set listed_version = null where name = 'withdrawn'`);
    const sentenceFor = async (name: string, keyUuid?: string) =>
      ((await refusedPlan({ models: [name], ...(keyUuid && { keyUuid }) })) as string[])[1];
    expect(await sentenceFor("withdrawn")).toBe(
      "Cannot make bundle: no version of the model withdrawn is listed",
    );
    await addNewModel(kit.database, { name: "coming" }, { now: NOW });
    await kit.database.query(
      (sql) => sql`
        update model_versions set file = null, download_url = null
         where model_id = (select id from models where name = 'coming')`,
    );
    expect(await sentenceFor("coming")).toBe("Cannot make bundle: coming 1.0.0 waits for its file");
    await kit.host({ name: "late" }, "late");
    await kit.database.query(
      (sql) => sql`
        update model_versions set created_at = ${new Date(NOW.getTime() + 60_000)}::timestamptz
         where model_id = (select id from models where name = 'late')`,
    );
    expect(await sentenceFor("late", await kit.issueUuid({ updatesUntil: NOW }))).toBe(
      "Cannot make bundle: no version of late was registered before the updates of the license ended, at 2026-11-20T12:00:00Z",
    );
    const keyUuid = await kit.issueUuid({ tier: "commercial" });
    const [license] = await kit.database.query<{ uuid: string; accountUuid: string }>(
      (sql) =>
        sql`select l.id as uuid, l.account_id as "accountUuid" from keys k join licenses l on l.id = k.license_id
             where k.id = ${keyUuid}::uuid`,
    );
    await kit.host({ name: "own", requiresLicense: "commercial", ownerUuid: license?.accountUuid }, "own");
    await kit.database.query(
      (sql) => sql`
        update licenses set own_features = '{"custom_models": {"granted": false}}'
         where id = ${license?.uuid ?? ""}::uuid`,
    );
    expect(await sentenceFor("own", keyUuid)).toBe(
      "Cannot make bundle: the license may not load own: it lacks the feature custom_models",
    );
    await kit.database.query(
      (sql) => sql`update models set listed_version = null where name in ('coming', 'late', 'own')`,
    );
  });

  test("a model whose file is missing or has another size", async () => {
    const { sha256 } = await kit.host({ name: "lost" }, "the bytes of lost");
    const path = pathOfFile(join(kit.dataDir, "models"), sha256);
    writeFileSync(path, "short");
    const problem = (what: string) => [
      "CONFLICT",
      `Cannot make bundle: the file of lost 1.0.0 is ${what} on this host; see \`claviger models verify\``,
      undefined,
    ];
    expect(await refusedPlan({ models: ["lost"] })).toEqual(problem("changed"));
    rmSync(path);
    expect(await refusedPlan({ models: ["lost"] })).toEqual(problem("missing"));
    writeFileSync(path, "the bytes of l0st");
    await expect(kit.make(await kit.issueUuid(), { models: ["lost"] })).rejects.toThrow(
      "the file of lost 1.0.0 is damaged on this host",
    );
    rmSync(path);
    await kit.host({ name: "lost", version: "2" }, "the bytes of lost");
  });

  test("added files with odd names, twice the same name, folders, and what is missing", async () => {
    const path = kit.write("a.txt", "a");
    const file = (name: string) => ({ name, path });
    const refusal = async (...files: AddedFile[]) =>
      ((await refusedPlan({ models: [], files })) as string[])[1];
    for (const name of ["a b", "-a", ".a", "..", "ä", "a/b", ""])
      expect(await refusal(file(name))).toStartWith(
        `Cannot make bundle: the name of ${path} must be letters, `,
      );
    expect(await refusal(file("a"), file("a"))).toBe(
      "Cannot make bundle: two of its files would have the name files/a",
    );
    // One file on a system that makes no difference between upper and lower case.
    expect(await refusal(file("A.whl"), file("a.whl"))).toBe(
      "Cannot make bundle: two of its files would have the name files/a.whl where upper and lower case are the same: the other is files/A.whl",
    );
    expect(await refusal(file("a"), file("B"), file("A"))).toContain("would have the name files/a where");
    expect(await refusal(file("a".repeat(95)))).toContain("has more than 100 characters");
    expect(await refusal({ name: "a", path: kit.dataDir })).toBe(
      `Cannot make bundle: ${kit.dataDir} cannot be read: it is a folder`,
    );
    expect(await refusal({ name: "a", path: `${path}.no` })).toContain("cannot be read: ");
    const many = Array.from({ length: 1_000 }, (_, index) => file(`f${index}`));
    expect(await refusal(...many)).toContain("it would have more than 999 files beside its license");
    expect(
      (await kit.make(await kit.issueUuid(), { models: [], files: many.slice(1) })).sizeBytes,
    ).toBeGreaterThan(1e6);
  });

  test("a file that changes between the plan and the bundle", async () => {
    const path = kit.write("changing", "one");
    const keyUuid = await kit.issueUuid();
    const files = [{ name: "changing", path }];
    const plan = orThrow(
      await planBundle(kit.database, { place: kit.place, keyUuid, now: NOW, models: [], files }),
    );
    writeFileSync(path, "two");
    const sealed = orThrow(await sealBundle(kit.signer, plan, { keyUuid, actor: ACTOR, now: NOW }));
    const whole = (async () => {
      for await (const _ of sealed.read());
    })();
    await expect(whole).rejects.toThrow("files/changing was changed meanwhile");
  });

  test("a suspended key, as an export does", async () => {
    const keyUuid = await kit.issueUuid();
    await suspendKey(createLicenseChanges(kit.database), keyUuid, { actor: ACTOR, now: NOW });
    const before = await kit.countExports();
    const plan = orThrow(await planBundle(kit.database, { place: kit.place, keyUuid, now: NOW, models: [] }));
    const request = { keyUuid, actor: ACTOR, now: NOW };
    const sealed = await sealBundle(kit.signer, plan, request);
    expect(sentenceOf(sealed)).toBe(sentenceOf(await kit.signer.export(request)));
    expect(await kit.countExports()).toEqual(before);
  });
});

describe("a manifest and a license", () => {
  test("never pass as each other", async () => {
    const { bytes, signed } = await kit.make(await kit.issueUuid(), { models: ["wave"] });
    const trusted = await kit.listTrusted();
    const manifest = (await textsOf(bytes))["manifest.jws"]?.trimEnd() ?? "";
    expect(verifyManifest(manifest, trusted).ok).toBe(true);
    expect(verifySignature(signed.license, trusted).ok).toBe(true);
    expect(verifySignature(manifest, trusted)).toEqual({
      ok: false,
      error: "its header is not that of a license (EdDSA, license+jwt)",
    });
    expect(checkLicense(manifest, { trusted, now: NOW }).ok).toBe(false);
    expect(verifyManifest(signed.license, trusted)).toEqual({
      ok: false,
      error: "its header is not that of a manifest (EdDSA, bundle+jwt)",
    });
  });
});

describe("readBundle()", () => {
  test("accepts nothing after a change of any of some thousand bytes, and nothing that was cut", async () => {
    const files = [{ name: "a.txt", path: kit.write("a.txt", "added") }];
    const { bytes } = await kit.make(
      await kit.issueUuid(),
      { models: ["wave"], files },
      { fingerprint: "host-7" },
    );
    const trusted = await kit.listTrusted();
    expect(await isAccepted(bytes, trusted)).toBe(true);
    for (let at = 0; at < bytes.length; at += 1 + (at % 5)) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8));
      expect([at, await isAccepted(changed, trusted)]).toEqual([at, false]);
    }
    for (let length = 0; length < bytes.length; length += 97)
      expect([length, await isAccepted(bytes.subarray(0, length), trusted)]).toEqual([length, false]);
    expect(await isAccepted(Buffer.concat([bytes, Buffer.alloc(512)]), trusted)).toBe(false);
    expect(await isAccepted(Buffer.concat([bytes, bytes]), trusted)).toBe(false);
  });

  test("names the file that was changed, and reads on", async () => {
    const { bytes } = await kit.make(await kit.issueUuid(), { models: ["wave"] });
    const at = bytes.indexOf("wave two");
    bytes.write("wave 2wo", at);
    const read = await readWhole(bytes, await kit.listTrusted());
    expect(read).toMatchObject({ ok: true, why: "models/wave-2.0.0.onnx is not what the manifest says" });
    expect(read.ok && read.files.map(({ path, isRight }) => [path, isRight])).toEqual([
      ["license.jws", true],
      ["models/wave-2.0.0.onnx", false],
    ]);
  });

  test("refuses the license of another bundle, also of the same machine", async () => {
    const keyUuid = await kit.issueUuid();
    const first = await kit.make(keyUuid, { models: [] }, { fingerprint: "host-7" });
    const second = await kit.make(keyUuid, { models: [] }, { fingerprint: "host-7" });
    const at = first.bytes.indexOf(first.signed.license);
    // Both licenses have the same length.
    expect(second.signed.license).toHaveLength(first.signed.license.length);
    first.bytes.write(second.signed.license, at);
    expect(await isAccepted(first.bytes, await kit.listTrusted())).toBe(false);
  });

  test("says when the license in it is not valid any more, and for whom it is", async () => {
    const { bytes } = await kit.make(await kit.issueUuid(), { models: [] });
    const trusted = await kit.listTrusted();
    const later = new Date(NOW.getTime() + 31 * 86_400_000);
    expect(await readWhole(bytes, trusted, later)).toMatchObject({
      ok: true,
      why: "of its license, it has expired",
    });
    expect(await readWhole(bytes, [generateKeyPair().publicKey])).toEqual({
      ok: false,
      error:
        "it is no genuine bundle: of its manifest, none of the trusted keys has signed it; the list of keys may be too old, or " +
        "the key was retired",
    });
  });

  test("refuses other files within a moment", async () => {
    const trusted = await kit.listTrusted();
    for (const bytes of ["", "text", "a".repeat(100_000)].map((text) => Buffer.from(text)))
      expect((await readWhole(bytes, trusted)).ok).toBe(false);
  });
});

describe("nameBundle()", () => {
  const name = (more: object) =>
    nameBundle({ email: "ada@example.org", organization: "", now: NOW, ...more });

  test("says customer, machine and day in safe characters", () => {
    expect(name({})).toBe("ada-example.org-2026-11-20.tar");
    expect(name({ fingerprint: "workstation-7" })).toBe("ada-example.org-workstation-7-2026-11-20.tar");
    expect(name({ organization: "Universität Zürich, Inc." })).toBe("Universitat-Zurich-Inc-2026-11-20.tar");
    expect(name({ organization: "東京" })).toBe("ada-example.org-2026-11-20.tar");
    expect(name({ organization: "../../etc/passwd" })).toBe("etc-passwd-2026-11-20.tar");
  });

  test("shortens what nobody reads whole: a long hash, and a long text", () => {
    const hex = hash("sha256", "a machine");
    expect(name({ fingerprint: hex })).toBe(`ada-example.org-${hex.slice(0, 12)}-2026-11-20.tar`);
    const long = name({ fingerprint: "rack 3, ".repeat(20) });
    expect(long).toMatch(/^ada-example\.org-rack-3-rack-3[a-z0-9-]+-[0-9a-f]{12}-2026-11-20\.tar$/);
    expect(long.length).toBeLessThan(90);
  });

  test("never gives two fingerprints one name, whatever their case", () => {
    const fingerprints = [
      "a b",
      "a-b",
      "a/b",
      "A-b",
      "a-b ",
      "-a-b",
      "a--b",
      `${"x".repeat(60)}1`,
      `${"x".repeat(60)}2`,
      hash("sha256", "one machine"),
      hash("sha256", "another machine"),
      hash("sha256", "one machine").toUpperCase(),
      "//",
    ];
    const names = fingerprints.map((fingerprint) => name({ fingerprint }).toLowerCase());
    expect(new Set(names).size).toBe(fingerprints.length);
    for (const each of names) expect(each).toMatch(/^[a-z0-9][a-z0-9._+-]*\.tar$/);
  });
});
