import { hash } from "node:crypto";
import { toDay } from "../../base/calendar.ts";

interface Named {
  readonly email: string;
  /** Empty if it is not known. */
  readonly organization: string;
  /** The fingerprint of the machine, if the bundle is for one. */
  readonly fingerprint?: string | undefined;
  readonly now: Date;
}

const PART_CHARACTERS = 60;

/**
 * Returns the name of the file of a bundle: customer, machine and day, such as `Engines-workstation-7-2026-11-30.tar`, in
 * characters that every system and every shell takes. Two fingerprints hardly ever give the same name, also where upper and lower
 * case are the same: one that is not written as it is gets the beginning of its SHA-256.
 */
export function nameBundle({ email, organization, fingerprint, now }: Named): string {
  const customer = toSafe(organization) || toSafe(email) || "customer";
  const machine = fingerprint === undefined ? [] : [nameMachine(fingerprint)];
  return `${[customer, ...machine, toDay(now)].join("-")}.tar`;
}

function nameMachine(fingerprint: string): string {
  const safe = toSafe(fingerprint);
  if (safe.toLowerCase() === fingerprint) return safe;
  return [safe, hash("sha256", fingerprint, "hex").slice(0, 12)].filter((part) => part !== "").join("-");
}

function toSafe(text: string): string {
  return text
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .replaceAll(/[^A-Za-z0-9._+]+/g, "-")
    .slice(0, PART_CHARACTERS)
    .replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "");
}
