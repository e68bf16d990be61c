/** `claviger doctor`: examines the installation and says what to repair. */
import { resolve } from "node:path";
import { isRefusal } from "../../base/refusal.ts";
import { escapeControls } from "../../base/text/mod.ts";
import { ORIGINS, readOrigin, VERSION } from "../../base/version.ts";
import { openDatabase } from "../../database/mod.ts";
import { type Config, type ConfigSource, readConfig } from "../../installation/config/mod.ts";
import {
  type CheckResult,
  DAMAGE,
  examineDatabase,
  examineHost,
  type Finding,
  type FoundCauses,
  fail,
  findExposedFile,
  findOtherCopy,
  keysCheck,
  ok,
  skip,
  skipDatabase,
  warn,
} from "../../installation/doctor/mod.ts";
import { findServing } from "../../installation/mod.ts";
import { command } from "../command.ts";
import { hasDemo } from "../demo/remove_demo.ts";
import { renderFailure } from "../failures.ts";
import type { Invocation } from "../invocation.ts";
import { examineOldUnit } from "../old_unit.ts";
import { type InstallationFlags, JSON_OPTIONS, PATH } from "../options.ts";
import { option } from "../parameter.ts";
import { paint } from "../print.ts";
import {
  CommandRefused,
  enterDataFolder,
  orRefuse,
  PersonNeeded,
  sourceOf,
  withInstallation,
} from "../run.ts";
import { findBackupsFolder } from "../unit_settings.ts";
import { hangText } from "../wrap_text.ts";

const QUERY_DEADLINE_MS = 10_000;

const OPTIONS = {
  ...JSON_OPTIONS,
  backups: option(
    "the folder of backups in which to look for keys that this database lacks; by default the one of claviger-backup.service",
    PATH,
    { as: "folder" },
  ),
};

export const doctor = command({
  name: "doctor",
  description: "examine the installation, while the service runs or is stopped, and say what to repair",
  options: OPTIONS,
  async run({ json, backups, ...place }, { invocation, print }) {
    const folder =
      backups === undefined ? findBackupsFolder(invocation.env) : resolve(invocation.workingFolder, backups);
    const { findings, needsPerson } = await examine(invocation, place, folder);
    const failed = findings.filter(({ state }) => state === "fail").length;
    if (json) print.document({ ok: failed === 0, findings });
    else printFindings(invocation, findings);
    const Refused = needsPerson ? PersonNeeded : CommandRefused;
    if (failed > 0) throw new Refused(`${failed} of ${findings.length} checks failed`);
  },
});

interface Examined {
  readonly findings: readonly Finding[];
  /** Whether other commands end with 78: the data is lost or damaged, or they would work on another installation. */
  readonly needsPerson?: boolean;
}

async function examine(
  invocation: Invocation,
  place: InstallationFlags,
  backups: string | undefined,
): Promise<Examined> {
  const { clock } = invocation;
  const program = { name: "program", ...ok(`${VERSION}, installed as ${ORIGINS[readOrigin()]}`) };
  const source = sourceOf(invocation, place);
  const config = readConfig(source);
  if (isRefusal(config)) {
    const wrong = fail(config.sentence, "correct it, then run `claviger config check`");
    return { findings: [program, { name: "configuration", ...wrong }] };
  }
  const oldUnit = examineOldUnit(source, config);
  const ofUnit = oldUnit === undefined ? [] : [{ name: "unit", ...oldUnit }];
  if (oldUnit?.state === "fail") return { findings: [program, ...ofUnit], needsPerson: true };
  orRefuse(enterDataFolder(invocation, config));
  const host = await examineHost({ config, clock, serving: findServing(config.dataDir) });
  const found: FoundCauses = new Map();
  const more = [keysCheck(backups)];
  const findings: Finding[] = [
    program,
    { name: "configuration", ...examineSettings(source, config) },
    ...ofUnit,
    ...host,
  ];
  try {
    await withInstallation(invocation, { config, create: false }, async ({ address, log }) => {
      const options = { clock, log, maxConnections: 1, deadlineMs: QUERY_DEADLINE_MS };
      await using database = openDatabase(address, options);
      // If nobody gets in, each check would say so.
      await database.query((sql) => sql`select`);
      const app = host.find(({ name }) => name === "github app")?.state;
      const where = config.databaseUrl === undefined ? config.dataDir : "the operator's own server";
      const context = { config, clock, address, database, place: where, app };
      findings.push(...(await examineDatabase(context, more, found)));
      const schema = findings.find(({ name }) => name === "schema");
      // Only a hint: what is wrong with the database is said already.
      if (schema?.state === "ok" && (await hasDemo(database).catch(() => false)))
        findings.push({ name: "demo", ...DEMO });
    });
  } catch (error) {
    // Whatever prevents the look at the database, the other findings may say why.
    const remedy = "do what this message says, then run `claviger doctor` again";
    const cause = { name: "database", ...fail(renderFailure(error), remedy) };
    findings.push(cause, ...skipDatabase(config, { cause: cause.name, more }));
    return { findings, needsPerson: error instanceof PersonNeeded };
  }
  return { findings, needsPerson: found.has(DAMAGE) && config.databaseUrl === undefined };
}

function examineSettings(source: ConfigSource, { unseen, tls }: Config): CheckResult {
  if (unseen !== undefined) {
    const message = `every visible setting is valid; the service may have others: ${unseen.why}`;
    return skip(message, unseen.remedy);
  }
  const exposed = findExposedFile(source);
  if (exposed !== undefined) {
    const remedy = `chgrp claviger ${exposed} && chmod 640 ${exposed}`;
    return warn(`every user of this host may read ${exposed}, which has a secret`, remedy);
  }
  const other = findOtherCopy(source, tls);
  if (other === undefined) return ok("every setting is valid");
  return warn(
    `${source.unit?.name} passes on ${other.passed}, but the settings name ${other.named}`,
    "print the unit again, with the files that the settings name: `claviger guide systemd`",
  );
}

const DEMO = warn(
  "the database has demo data: demo keys are accepted, and the repository token is a made-up one",
  "run `claviger demo remove` before others reach the service",
);

const COLOURS = { ok: "green", warn: "yellow", fail: "red" } as const;

function printFindings({ out, columns, hasColours }: Invocation, findings: readonly Finding[]): void {
  const width = Math.max(...findings.map(({ name }) => name.length));
  const isColoured = hasColours && columns !== undefined;
  const margin = width + 8;
  const lines = (text: string, indent: number) => hangText(escapeControls(text), { indent, columns });
  for (const { name, state, message, remedy } of findings) {
    const word = state.padEnd(4);
    out(state === "skip" ? word : paint(word, COLOURS[state], isColoured));
    out(`  ${name.padEnd(width)}  ${lines(message, margin)}\n`);
    if (remedy !== undefined) out(`${" ".repeat(margin)}→ ${lines(remedy, margin + 2)}\n`);
  }
}
