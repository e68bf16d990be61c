/** Examines an installation as `claviger doctor` does, in this process. */
import { systemClock } from "../../../src/base/clock.ts";
import type { Unseen } from "../../../src/installation/config/mod.ts";
import { examineDatabase, examineHost, type Finding } from "../../../src/installation/doctor/mod.ts";
import type { ServingAt } from "../../../src/installation/mod.ts";
import { configOf } from "../../support/config.ts";
import type { TestDatabase } from "../../support/database.ts";

interface Given {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly unseen?: Unseen | undefined;
  readonly serving?: ServingAt | undefined;
  readonly clock?: typeof systemClock;
}

/** Examines host and database with these settings; returns a function that returns the finding with a name. */
export async function examineAll(
  { address, database }: Pick<TestDatabase, "address" | "database">,
  { env = {}, unseen, serving, clock = systemClock }: Given = {},
): Promise<(name: string) => Finding | undefined> {
  const config = configOf({ CLAVIGER_DATA_DIR: "/nonexistent", CLAVIGER_PORT: "0", ...env }, { unseen });
  const findings = [
    ...(await examineHost({ config, clock, serving })),
    ...(await examineDatabase({ config, clock, address, database, place: "here" })),
  ];
  return (name) => findings.find((finding) => finding.name === name);
}
