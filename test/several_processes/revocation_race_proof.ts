/** The long race of revocations; the README names its figure. */
import { test } from "bun:test";
import { EXTENT } from "../evidence/extent.ts";
import { raceRevocations } from "./revocation_race.ts";

// Runs alone: it judges a time.

const KEYS = EXTENT.revocations;

test(`POST /v1/auth/revoke is in force from its answer on, elsewhere within a second: ${KEYS} keys`, () =>
  raceRevocations(KEYS));
