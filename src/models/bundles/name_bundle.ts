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

const CUSTOMER_CHARACTERS = 60;
const MACHINE_CHARACTERS = 40;
/** What the modules make for a machine without a name: a hash, or as many random digits. */
const LONG_HASH = /^[0-9a-f]{32,}$/;
const HASH_CHARACTERS = 12;

/**
 * Returns the name of the file of a bundle: customer, machine and day, such as `Engines-workstation-7-2026-11-30.tar`, in
 * characters that every system and every shell takes. Two fingerprints hardly ever give the same name, also where upper and lower
 * case are the same: a long hash is shortened to its beginning, and another one that is not written as it is gets the beginning of
 * its SHA-256.
 */
export function nameBundle({ email, organization, fingerprint, now }: Named): string {
  const customer =
    toSafe(organization, CUSTOMER_CHARACTERS) || toSafe(email, CUSTOMER_CHARACTERS) || "customer";
  const machine = fingerprint === undefined ? [] : [nameMachine(fingerprint)];
  return `${[customer, ...machine, toDay(now)].join("-")}.tar`;
}

function nameMachine(fingerprint: string): string {
  if (LONG_HASH.test(fingerprint)) return fingerprint.slice(0, HASH_CHARACTERS);
  const safe = toSafe(fingerprint, MACHINE_CHARACTERS);
  if (safe.toLowerCase() === fingerprint) return safe;
  const digits = hash("sha256", fingerprint, "hex").slice(0, HASH_CHARACTERS);
  return [safe, digits].filter((part) => part !== "").join("-");
}

function toSafe(text: string, mostCharacters: number): string {
  return text
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .replaceAll(/[^A-Za-z0-9._+]+/g, "-")
    .slice(0, mostCharacters)
    .replaceAll(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "");
}
