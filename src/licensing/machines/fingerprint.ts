import { printableAscii, type Rule, trimmedAscii } from "../../base/rule.ts";
import type { Secrets } from "../../base/secrets/mod.ts";
import type { Fragment, Sql } from "../../database/mod.ts";

const LEAST_CHARACTERS = 8;
const MOST_CHARACTERS = 200;

/** The rule for the text by which a client names its machine. */
export const FINGERPRINT = printableAscii(LEAST_CHARACTERS, MOST_CHARACTERS);

/**
 * The rule for the fingerprint that an operator gives at any door. A blank at its end, as a file or a copied line can have one,
 * would name another machine.
 */
export const GIVEN_FINGERPRINT = givenFingerprint(LEAST_CHARACTERS);

/** Returns the rule of {@linkcode GIVEN_FINGERPRINT} for fingerprints that can be shorter, where machines are not counted. */
export function givenFingerprint(leastCharacters: number): Rule<string> {
  return trimmedAscii(leastCharacters, MOST_CHARACTERS);
}

/** A machine of a license: what is stored in place of its fingerprint. */
export interface MachineName {
  readonly licenseUuid: string;
  /** 64 hexadecimal digits. */
  readonly hash: string;
}

/** Names a machine by its license and a fingerprint as {@linkcode FINGERPRINT} returns it. */
export type NameMachine = (licenseUuid: string, fingerprint: string) => MachineName;

/**
 * Creates the function that names machines. The hash is keyed with the root secret and contains the license: so nobody
 * without the root secret can try fingerprints, and two licenses on one machine cannot be linked.
 */
export function createMachineNames(secrets: Pick<Secrets, "signer">): NameMachine {
  const { sign } = secrets.signer("machine");
  return (licenseUuid, fingerprint) => ({
    licenseUuid,
    hash: Buffer.from(sign([licenseUuid, fingerprint]), "base64url").toString("hex"),
  });
}

/** Returns the fingerprint of a machine as it is stored, as SQL; null without a machine. */
export function toStoredFingerprint(sql: Sql, machine: MachineName | undefined): Fragment {
  return sql`${machine === undefined ? null : `\\x${machine.hash}`}::text::bytea`;
}
