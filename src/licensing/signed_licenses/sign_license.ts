/**
 * Signs licenses. One statement reads key, license, quota and signing key, and notes what will be signed; the signature
 * is made after it. So every license that exists is noted, and none is signed with a key that was retired.
 */
import type { KeyObject } from "node:crypto";
import { monthOf, NEVER_EXPIRES, toTimestamp } from "../../base/calendar.ts";
import { newUuid, toId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { printableAscii, wholeNumber } from "../../base/rule.ts";
import type { Secrets } from "../../base/secrets/mod.ts";
import type { Database, Sql } from "../../database/mod.ts";
import {
  createMachineNames,
  FINGERPRINT,
  givenFingerprint,
  MACHINE_NOT_ACTIVE,
  type MachineName,
  type NameMachine,
} from "../machines/mod.ts";
import type { Brand, LicenseCache } from "../mod.ts";
import { entitlementsOf, featuresThrough, type OfflineDays } from "../mod.ts";
import { type BundledFile, toManifest } from "./bundle_manifest.ts";
import { type ForeseenKey, type ForeseenRequest, foreseeExports } from "./foresee_export.ts";
import { foreseeNext, type NextLicense } from "./foresee_next.ts";
import { signClaims } from "./jws.ts";
import {
  type ExportRequest,
  MOST_EXPORT_DAYS,
  type Named,
  type Noted,
  type Noting,
  noteExported,
  noteFetched,
  noteLicense,
  type SigningRequest,
  USUAL_EXPORT_DAYS,
} from "./note_license.ts";
import { NAME_MACHINE, refuseDays, refuseExport } from "./refuse_export.ts";
import { createReportKeys } from "./report_key.ts";
import { openSigningKey, type SigningKey } from "./signing_keys.ts";

/** The rule for the number of days for which a license is signed. */
export const SIGNED_DAYS = wholeNumber(1, MOST_EXPORT_DAYS);
/** What the number is where an operator gives none. */
export const DAYS_BY_DEFAULT = `by default ${USUAL_EXPORT_DAYS}, or the offline days of the license if these are fewer`;

/** The rule for a text that a license repeats, so that its client can tell that the answer is the one to its request. */
export const NONCE = printableAscii(1, 128);
/**
 * The rule for the fingerprint that a license repeats. If the license counts machines, the fingerprint must also follow
 * {@linkcode FINGERPRINT}, which has a larger minimum length.
 */
export const SIGNED_FINGERPRINT = printableAscii(1, 200);
/** The rule for that fingerprint as an operator gives it. */
export const EXPORTED_FINGERPRINT = givenFingerprint(1);

export interface SignedLicense {
  /** A compact JWS. */
  readonly license: string;
  readonly claims: LicenseClaims;
  readonly kid: string;
  /** The end of the license, if its term began with this signed license; otherwise undefined. */
  readonly startedTerm: { readonly expiresAt: Date } | undefined;
  /** Until when exported licenses hold the place of its machine: until the last one ends. Undefined without a place. */
  readonly placeUntil: Date | undefined;
}

export type LicenseSigner = ReturnType<typeof createLicenseSigner>;

interface LicenseSignerOptions {
  readonly database: Database;
  /** The cache of this process; a process without one, such as a command, leaves it out. */
  readonly cache?: LicenseCache | undefined;
  readonly brand: Brand;
  /** The address at which clients reach the service; undefined if it is not set. */
  readonly publicUrl: string | undefined;
  readonly offlineDays: OfflineDays;
  readonly secrets: Secrets;
}

const NOT_ACTIVE = refuse("INVALID_KEY", "The API key is invalid or inactive");
const EXPIRED = refuse("KEY_EXPIRED", "The API key has expired");
const TIER_NOT_OFFLINE = refuse(
  "OFFLINE_NOT_ALLOWED",
  "Licenses of this tier are not signed for use without a network",
);
const NOT_OFFLINE = refuse("OFFLINE_NOT_ALLOWED", "This license is not signed for use without a network");
/** Happens only at the moment of a rotation or a retirement. */
const NO_SIGNING_KEY = refuse("SERVICE_UNAVAILABLE", "No key can sign the license now; try again");
const CHANGED = refuse("SERVICE_UNAVAILABLE", "The license was changed at this moment; try again");

/** Creates the signer. It keeps the private keys that it has opened. */
export function createLicenseSigner(options: LicenseSignerOptions) {
  const { database, cache, secrets, offlineDays } = options;
  const nameMachine = createMachineNames(secrets);
  const reportKeyOf = createReportKeys(secrets);
  const opened = new Map<string, KeyObject>();

  function keyOf(row: Pick<SigningKey, "kid" | "publicKey" | "sealed">): KeyObject {
    const kept = opened.get(row.kid);
    if (kept !== undefined) return kept;
    const key = openSigningKey(secrets, row);
    if (key === undefined)
      throw new Error(`The signing key ${row.kid} cannot be opened with this root secret`);
    opened.set(row.kid, key);
    return key;
  }

  async function signNoted<Request extends SigningRequest>(
    request: Request,
    {
      refuseRow,
      note,
      reports = false,
    }: {
      readonly refuseRow: (row: Noted | undefined, named: Named<Request>) => Refusal | undefined;
      readonly note: (sql: Sql, named: Named<Request>) => Noting;
      /** Whether the license carries the key for reports of use, if its fingerprint names a machine. */
      readonly reports?: boolean;
    },
  ): Promise<SignedLicense | Refusal> {
    const jti = newUuid();
    const named = { ...request, jti, machine: await findMachineName(database, request, nameMachine) };
    const noteOnce = async () => {
      const [row] = await database.query<Noted>((sql) => noteLicense(sql, named, note(sql, named)));
      return refuseRow(row, named) ?? row;
    };
    let row = await noteOnce();
    // Another process started the term meanwhile. Now the statement reads the end that it set.
    if (!isRefusal(row) && row?.isOutrun) row = await noteOnce();
    if (isRefusal(row)) return row;
    if (row?.isOutrun) return CHANGED;
    if (row?.isStarted) cache?.forgetLicense(row.licenseUuid);
    if (row?.kid === null) return NO_SIGNING_KEY;
    if (row?.exp == null) return EXPIRED;
    const signer = { kid: row.kid, publicKey: row.publicKey ?? "", sealed: row.sealed ?? "" };
    const { machine } = named;
    const report = reports && machine ? { machine: machine.hash, key: reportKeyOf(machine) } : undefined;
    const claims = toClaims({ ...row, exp: row.exp, jti, report }, request, options);
    const license = signClaims(claims, { kid: row.kid, privateKey: keyOf(signer) });
    const startedTerm = row.isStarted ? { expiresAt: row.licenseExpiresAt } : undefined;
    return { license, claims, kid: row.kid, startedTerm, placeUntil: row.placeUntil ?? undefined };
  }

  return {
    /** For how many days a client of each tier gets a license that has no days of its own. */
    offlineDays,
    /**
     * Signs the license of an active key, but not beyond the end of the key or its license. Its days are those of the
     * request, or else as many as the license allows: its own, or those of its tier. Refuses a key that is not active
     * (`INVALID_KEY`) or has expired (`KEY_EXPIRED`), a license that allows none (`OFFLINE_NOT_ALLOWED`), and more days
     * (`INVALID_REQUEST`). A license that counts machines needs the fingerprint of an active one (`INVALID_REQUEST`,
     * `MACHINE_NOT_FOUND`), whose place is then taken until the signed license ends. What is signed is a use of the
     * license: it starts a term that begins with the first use.
     */
    sign: (request: SigningRequest) =>
      signNoted(request, {
        refuseRow: refuseClient,
        note: (sql, named) => noteFetched(sql, { ...named, offlineDays }),
      }),
    /**
     * Signs like {@linkcode LicenseSigner.sign}, but for the days that an operator chose, which only the license's own
     * days bound. The audit log notes it. A restricted actor may not choose more than a year. A machine that is not
     * active gets a place until the file ends. With a fingerprint that names a machine the license carries the key with
     * which that machine signs reports of its use.
     */
    export: async (request: ExportRequest) =>
      refuseDays(request) ??
      (await signNoted(request, { refuseRow: refuseExport, note: noteExported, reports: true })),
    /** Says what {@linkcode LicenseSigner.export} would sign next for a machine, or refuses it. Changes nothing. */
    foreseeNext: (next: NextLicense) => foreseeNext(database, next, nameMachine),
    /**
     * Foresees what {@linkcode LicenseSigner.export} will do for some machines, as far as a read can tell. It changes nothing.
     */
    foresee: (key: ForeseenKey, request: ForeseenRequest) =>
      foreseeExports(database, key, { ...request, nameMachine }),
    /**
     * Signs the manifest of a bundle with an exported license that this signer has signed, with the key that signed the
     * license. Returns a compact JWS.
     */
    signManifest({ kid, claims }: SignedLicense, files: readonly BundledFile[]): string {
      const privateKey = opened.get(kid);
      if (privateKey === undefined) throw new Error("Another signer has signed the license of the bundle");
      return signClaims(toManifest(claims, files), { kid, privateKey, kind: "manifest" });
    },
  };
}

/** Names the machine of a request; undefined if there is none, or if its fingerprint cannot name a machine. */
async function findMachineName(
  database: Database,
  { keyUuid, licenseUuid, fingerprint = "" }: SigningRequest,
  nameMachine: NameMachine,
): Promise<MachineName | undefined> {
  if (FINGERPRINT.parse(fingerprint) === undefined) return undefined;
  if (licenseUuid !== undefined) return nameMachine(licenseUuid, fingerprint);
  const [key] = await database.query<{ licenseUuid: string }>(
    (sql) => sql`select license_id as "licenseUuid" from keys where id = ${keyUuid}::uuid`,
  );
  return key && nameMachine(key.licenseUuid, fingerprint);
}

function refuseClient(row: Noted | undefined, { machine, now }: Named<SigningRequest>): Refusal | undefined {
  if (row === undefined || row.state !== "active") return NOT_ACTIVE;
  if (row.endsAt <= now) return EXPIRED;
  const { days, mostDays } = row;
  if (mostDays === 0) return row.maxOfflineDays === null ? TIER_NOT_OFFLINE : NOT_OFFLINE;
  if (days > mostDays)
    return refuse("INVALID_REQUEST", `days must be at most ${mostDays}: this license is signed for no more`);
  if (row.maxMachines !== null && machine === undefined)
    return refuse("INVALID_REQUEST", `Cannot sign license: ${NAME_MACHINE}`);
  return row.isPlaceRefused ? MACHINE_NOT_ACTIVE : undefined;
}

/** How a machine names itself in a report of its use, and the key that signs the report. */
interface ReportClaim {
  /** 64 hexadecimal digits. */
  readonly machine: string;
  /** 32 bytes as base64url. */
  readonly key: string;
}

type LicenseClaims = ReturnType<typeof toClaims>;

/** Returns the license claims. Times are Unix seconds, unless their names end in `_at`. */
function toClaims(
  row: Noted & { readonly exp: Date; readonly jti: string; readonly report: ReportClaim | undefined },
  { nonce, fingerprint, now }: SigningRequest,
  { brand, publicUrl }: LicenseSignerOptions,
) {
  const iat = wholeSeconds(now);
  const exp = wholeSeconds(row.exp);
  const { features, ends } = featuresThrough(row, { now, end: row.exp });
  const entitlements = entitlementsOf(row);
  return {
    iss: publicUrl ?? brand.name,
    aud: brand.name,
    sub: toId("lic", row.licenseUuid),
    jti: row.jti,
    iat,
    nbf: iat,
    exp,
    // Half-way between `iat` and `exp`.
    refresh_after: iat + Math.floor((exp - iat) / 2),
    key_id: toId("key", row.uuid),
    user_id: toId("usr", row.accountUuid),
    mode: row.mode,
    license_type: row.tier,
    features,
    // Absent without a feature that ends earlier than this license: a client must not use one for longer.
    ...(Object.keys(ends).length > 0 && { feature_ends: ends }),
    quota: {
      // Null means unlimited.
      monthly_limit: row.monthlyLimit,
      used: row.used,
      as_of: toTimestamp(now),
      resets_at: monthOf(now.getTime()).resetsAt,
    },
    // Absent for a license that never ends.
    ...(row.licenseExpiresAt < NEVER_EXPIRES && { license_expires_at: toTimestamp(row.licenseExpiresAt) }),
    // Absent for a license that has all updates.
    ...(row.updatesUntil !== null && { updates_until: toTimestamp(row.updatesUntil) }),
    // Absent for a license without values.
    ...(Object.keys(entitlements).length > 0 && { entitlements }),
    ...(nonce !== undefined && { nonce }),
    ...(fingerprint !== undefined && { fingerprint }),
    ...(row.machineUuid !== null && { machine_id: toId("mch", row.machineUuid) }),
    // Only in a license that an operator exported for a machine.
    ...(row.report !== undefined && { report: row.report }),
  };
}

function wholeSeconds(at: Date): number {
  return Math.floor(at.getTime() / 1_000);
}
