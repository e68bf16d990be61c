/** Makes reports of use as a machine without a network does. */
import { createHash, createHmac } from "node:crypto";
import { parseId, toId } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { createMachineNames } from "../../../src/licensing/machines/mod.ts";
import { createReportKeys } from "../../../src/licensing/signed_licenses/mod.ts";
import { parseReport, type UsageReport } from "../../../src/usage/mod.ts";
import { openSecrets } from "../../support/secrets.ts";

const secrets = openSecrets();
export const nameMachine = createMachineNames(secrets);
export const reportKeyOf = createReportKeys(secrets);

export const FINGERPRINT = "workstation-7";
export const JOURNAL = "0123456789abcdef0123456789abcdef";
export const OTHER_JOURNAL = "fedcba9876543210fedcba9876543210";

export interface DayOfReport {
  readonly day: string;
  readonly event_type?: string;
  readonly model_name?: string | null;
  readonly count: number;
  readonly failed?: number;
}

export type Payload = Readonly<Record<string, unknown>>;

/** Returns the payload of a report; `fields` replaces any field. */
export function payloadOf(
  { licenseUuid, fingerprint = FINGERPRINT }: { readonly licenseUuid: string; readonly fingerprint?: string },
  fields: Payload & { readonly days?: readonly DayOfReport[] } = {},
): Payload {
  const { days = [{ day: "2026-11-19", count: 3 }], ...rest } = fields;
  return {
    version: 1,
    license_id: toId("lic", licenseUuid),
    machine: nameMachine(licenseUuid, fingerprint).hash,
    journal: JOURNAL,
    number: 1,
    previous: null,
    made_at: "2026-11-20T11:00:00Z",
    clients: ["python 0.6.0"],
    days: days.map((row) => ({ event_type: "inference", model_name: null, failed: 0, ...row })),
    ...rest,
  };
}

export const HEADER = { alg: "HS256", typ: "usage-report+jwt" };

export function encode(value: unknown): string {
  return Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
}

/** Signs a payload with the key of a license and a machine, by default those that it names. */
export function signReport(
  payload: Payload | string,
  {
    header = HEADER,
    licenseUuid,
    fingerprint = FINGERPRINT,
  }: { readonly header?: object; readonly licenseUuid: string; readonly fingerprint?: string },
): string {
  return signWith(payload, { header, key: reportKeyOf(nameMachine(licenseUuid, fingerprint)) });
}

/** Signs a payload with a key as a license has it: base64url. */
function signWith(
  payload: Payload | string,
  { header, key }: { readonly header: object; readonly key: string },
): string {
  const signed = `${encode(header)}.${encode(payload)}`;
  const hmac = createHmac("sha256", Buffer.from(key, "base64url"));
  return `${signed}.${hmac.update(signed).digest("base64url")}\n`;
}

/** Makes the first report of a machine from its license file alone, as the machine does. */
export function reportFromLicense(license: string, at: Date): string {
  const [, body = ""] = license.split(".");
  const { sub, report } = JSON.parse(Buffer.from(body, "base64url").toString());
  const licenseUuid = parseId("lic", sub) ?? "";
  const made_at = at.toISOString();
  const day = made_at.slice(0, 10);
  const payload = {
    ...payloadOf({ licenseUuid }, { made_at, days: [{ day, count: 3 }] }),
    machine: report.machine,
  };
  return signWith(payload, { header: HEADER, key: report.key });
}

/** Returns the digest that the next report names. */
export function digestOf(text: string): string {
  return createHash("sha256").update(text.trimEnd()).digest("hex");
}

/** Makes the reports of a journal one after another. */
export function createJournal(
  licenseUuid: string,
  options: { readonly fingerprint?: string; readonly journal?: string } = {},
) {
  let number = 0;
  let previous: string | null = null;
  const { fingerprint = FINGERPRINT, journal = JOURNAL } = options;
  return {
    /** Writes the next report. */
    next(fields: Parameters<typeof payloadOf>[1] = {}): string {
      const payload = payloadOf(
        { licenseUuid, fingerprint },
        { journal, number: ++number, previous, ...fields },
      );
      const text = signReport(payload, { licenseUuid, fingerprint });
      previous = digestOf(text);
      return text;
    },
    /** Returns what a restore of the machine brings back: the journal as it is now. */
    save: () => ({ number, previous }),
    /** Takes the machine back to a saved state. */
    restore(saved: { readonly number: number; readonly previous: string | null }) {
      ({ number, previous } = saved);
    },
  };
}

/** Makes the first report of a machine, made and used at a time. */
export function firstReport(licenseUuid: string, at: Date): string {
  const made_at = at.toISOString();
  return createJournal(licenseUuid).next({ made_at, days: [{ day: made_at.slice(0, 10), count: 3 }] });
}

/** Parses a report that is right. */
export async function parsed(text: string): Promise<UsageReport> {
  const report = await parseReport(text, reportKeyOf);
  if (isRefusal(report)) throw new Error(report.sentence);
  return report;
}
