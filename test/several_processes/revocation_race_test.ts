/** A short race of revocations; `revocation_race_proof.ts` runs the long one. */
import { test } from "bun:test";
import { raceRevocations } from "./revocation_race.ts";

const KEYS = 300;

test(`POST /v1/auth/revoke is in force from its answer on, elsewhere within a second: ${KEYS} keys`, () =>
  raceRevocations(KEYS));
