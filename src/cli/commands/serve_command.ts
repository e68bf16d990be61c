/** `claviger serve`: starts the service, prints its address, and stops it in order at a signal. */

import { setTimeout as sleep } from "node:timers/promises";
import { originOf, toReachedHost } from "../../base/listener_url.ts";
import { createLog, type Log, type LogFields } from "../../base/log.ts";
import { quoteShellWord } from "../../base/quote_shell_word.ts";
import { hasCode } from "../../base/system_error.ts";
import { INITDB_STOPPED } from "../../database/embedded/mod.ts";
import { DatabaseUnavailable } from "../../database/mod.ts";
import { type Config, readConfig, refuseAdminListener } from "../../installation/config/mod.ts";
import { leaveServingNote, type ServingNote } from "../../installation/mod.ts";
import { hasKeys } from "../../licensing/keys/mod.ts";
import { type OpenInstallation, type Service, startService } from "../../service/mod.ts";
import { command } from "../command.ts";
import { addDemo, completeDemo } from "../demo/add_demo.ts";
import { createDemoLink, findDemoAddresses } from "../demo/console.ts";
import { findDemoKeys, renderDemo } from "../demo/keys.ts";
import { hasDemo } from "../demo/remove_demo.ts";
import { refuseTakenAddress } from "../free_addresses.ts";
import type { Invocation } from "../invocation.ts";
import { PLACE_OPTIONS, settingText } from "../options.ts";
import { anyText, flag, option, type ValuesOf } from "../parameter.ts";
import { enterDataFolder, explainFailures, orRefuseStart } from "../run.ts";
import { listenForSignals, runUntilStopped, type Signals, STOP_DEADLINE_MS } from "../run_until_stopped.ts";

const OPTIONS = {
  ...PLACE_OPTIONS,
  host: option("the address to listen on; 127.0.0.1 by default", settingText("CLAVIGER_HOST")),
  port: option("the port; 8080 by default", settingText("CLAVIGER_PORT")),
  tlsCert: option("serve https with this certificate and its chain (PEM)", anyText, { as: "file" }),
  tlsKey: option("the certificate's private key (PEM); SIGHUP reads both files again", anyText, {
    as: "file",
  }),
  metricsListen: option(
    "answer GET /metrics at this address, for Prometheus; off by default",
    settingText("CLAVIGER_METRICS_LISTEN"),
    { as: "host:port" },
  ),
  adminListen: option(
    "serve the console and the API for operators at this address; off by default",
    settingText("CLAVIGER_ADMIN_LISTEN"),
    { as: "host:port" },
  ),
  demo: flag("add sample keys and models to an empty database, and show the keys"),
};

export const serve = command({
  name: "serve",
  description: "run the service; without DATABASE_URL it also runs the PostgreSQL inside",
  options: OPTIONS,
  run: (options, { invocation }) => runService(invocation, options),
});

async function runService(invocation: Invocation, options: ValuesOf<typeof OPTIONS>): Promise<void> {
  // Listens before anything starts, because a signal that arrives during the start must not be lost.
  const signals = listenForSignals(invocation);
  const { clock, platform } = invocation;
  const flags = {
    CLAVIGER_DATA_DIR: options.dataDir,
    CLAVIGER_HOST: options.host,
    CLAVIGER_PORT: options.port,
    CLAVIGER_METRICS_LISTEN: options.metricsListen,
    CLAVIGER_ADMIN_LISTEN: options.adminListen,
    CLAVIGER_TLS_CERT: options.tlsCert,
    CLAVIGER_TLS_KEY: options.tlsKey,
  };
  // Leaves out the unit's settings: the unit's own service has them already, and any other process is another service.
  const config = orRefuseStart(readConfig({ ...invocation, envFile: options.envFile, flags }));
  orRefuseStart(refuseAdminListener(config));
  orRefuseStart(enterDataFolder(invocation, config, { begins: true }));
  const say = createSay(invocation, config);
  const log = createLog({ format: config.logFormat, clock, write: invocation.err, gathers: true });
  orRefuseStart(await refuseTakenAddress(config, platform));
  const demoUrl = options.demo && config.publicUrl === undefined ? toReachedAddress(config) : undefined;
  const work = async () => {
    const opened = Promise.withResolvers<OpenInstallation>();
    const started = await orStopped(
      signals,
      startService({
        config,
        reachedAt: demoUrl,
        platform,
        clock,
        log,
        onOpened: opened.resolve,
        ...(options.demo && {
          findAdminAddresses: (database) =>
            findDemoAddresses(invocation, { config, database }).catch(noneYet),
        }),
      }),
    );
    if ("signal" in started) return log.info("Stopped before the service had started", started);
    const service = orRefuseStart(started);
    let note: ServingNote | undefined;
    try {
      note = leaveNote(service, { config, demoUrl, log });
      const address = service.url;
      say(`Claviger serves at ${address}`, { url: address });
      say(`Its data is in ${service.place}`, { place: service.place });
      if (service.metrics) {
        const url = `${originOf(service.metrics, false)}/metrics`;
        say(`Its metrics are at ${url}`, { url });
      }
      if (service.admin) {
        const { origin, url } = service.admin;
        say(`It serves operators at ${origin}${url === origin ? "" : `, as ${url}`}`, { url });
      }
      const commandTo = toCommand(invocation, { config, envFile: options.envFile });
      if (!options.demo && (await unlessItFails(() => hasDemo(service.database))))
        say(HAS_DEMO, { command: commandTo("demo remove") });
      const issue = commandTo("keys issue --email you@example.org --tier research");
      // After everything that can fail at start, so that the demo's keys are the last lines.
      if (options.demo)
        await showDemo(invocation, config, { opened: await opened.promise, address, issue, say });
      if (options.demo) await showDemoLogin(invocation, config, { service, login: commandTo(LOGIN), say });
      if ((await unlessItFails(() => hasKeys(service.database))) === false)
        say("There are no keys yet. To issue the first key, run", { command: issue });
      await runUntilStopped(invocation, service, { config, log, signals });
    } catch (error) {
      await service.stop(STOP_DEADLINE_MS);
      throw error;
    } finally {
      note?.remove();
    }
    log.info("Stopped");
  };
  await explainFailures(config, work, { orThrow: orRefuseStart });
}

/** A signal to every process may reach initdb a moment before this process. */
const SIGNAL_LIMIT_MS = 1_000;

/**
 * Returns the result of a start; or the signal that stopped it, if the start failed because the signal also ended initdb. Some
 * programs send a signal to every process of the service.
 */
async function orStopped<Result>(
  { stopped }: Pick<Signals, "stopped">,
  starting: Promise<Result>,
): Promise<Result | { readonly signal: string }> {
  try {
    return await starting;
  } catch (error) {
    const isStopped = error instanceof Error && hasCode(error.cause, INITDB_STOPPED);
    const signal = isStopped && (await Promise.race([stopped, sleep(SIGNAL_LIMIT_MS)]));
    if (signal) return { signal };
    throw error;
  }
}

/** Prints a line on standard output, in the log's format, and below it the command that the operator is to run, if any. */
type Say = (message: string, fields: LogFields & { readonly command?: string }) => void;

function createSay({ out, clock }: Invocation, { logFormat }: Config): Say {
  if (logFormat === "json") return createLog({ format: logFormat, clock, write: out }).info;
  return (message, { command }) => out(`${message}\n${command === undefined ? "" : `  ${command}\n`}`);
}

interface LeaveNoteOptions {
  readonly config: Config;
  readonly demoUrl: string | undefined;
  readonly log: Log;
}

/** Writes the note that `doctor` and other commands read. They also work without it, so a failure does not stop the service. */
function leaveNote(
  { host, port, admin }: Service,
  { config: { dataDir, tls }, demoUrl, log }: LeaveNoteOptions,
): ServingNote | undefined {
  try {
    return leaveServingNote(dataDir, {
      host,
      port,
      tls,
      admin: admin && { host: admin.host, port: admin.port },
      demoUrl,
    });
  } catch (error) {
    log.warn("Cannot write the file serving, which says where the service listens", {
      dataDir,
      reason: String(error),
    });
    return undefined;
  }
}

interface ShowDemoOptions {
  readonly opened: OpenInstallation;
  readonly address: string;
  readonly issue: string;
  readonly say: Say;
}

async function showDemo(
  { out, userName, clock }: Invocation,
  config: Config,
  { opened, address, issue, say }: ShowDemoOptions,
): Promise<void> {
  const added = await addDemo(opened, { config, userName, clock });
  const find = () => findDemoKeys(opened, { brand: config.brand, now: clock.now() });
  const keys = added ?? (await unlessItFails(find)) ?? [];
  if (keys.length === 0) {
    const empty = config.databaseUrl === undefined ? "--data-dir" : "database";
    const why = (await unlessItFails(() => hasDemo(opened.database)))
      ? "An earlier version, or another secret, made this demo, so its keys cannot be shown"
      : "There are keys already, so no demo was added";
    say(`${why}: a demo needs an empty ${empty}. To issue another key, run`, { command: issue });
  } else if (config.logFormat === "json") {
    say("Demo keys", Object.fromEntries(keys.map(({ label, apiKey }) => [label, apiKey])));
  } else out(renderDemo(keys, { address, config }));
  if (added !== undefined) await completeDemo(opened, clock);
}

const LOGIN = "operators login your-name --role admin";

/** Shows the link that logs in to the console of a demo, otherwise the command that creates a link. */
async function showDemoLogin(
  invocation: Invocation,
  config: Config,
  { service, login, say }: { readonly service: Service; readonly login: string; readonly say: Say },
): Promise<void> {
  const link = await unlessItFails(() => createDemoLink(invocation, { config, service }));
  const first = service.admin ? "" : "add --admin-listen 127.0.0.1:8081, and ";
  if (link === undefined) say(`To log in to the console, ${first}run`, { command: login });
  else
    invocation.out(`To log in to the console, open this link, once and within ten minutes:\n  ${link}\n\n`);
}

/** Returns where a demo listens, so that clients can download its models; undefined if the system chooses the port. */
function toReachedAddress({ host, port, tls }: Config): string | undefined {
  return port === 0 ? undefined : originOf({ host: toReachedHost(host), port }, tls !== undefined);
}

/** Said by a service without `--demo`: anyone who has a demo key can use the service. */
const HAS_DEMO =
  "The database has demo data: demo keys are accepted, and the repository token is a made-up one. To remove both, run";

/** Returns undefined if the database fails: a service that already answers clients must not end because of a hint. */
async function unlessItFails<Result>(ask: () => Promise<Result>): Promise<Result | undefined> {
  return await ask().catch(() => undefined);
}

/** Returns no address if the database has just become unavailable: the service starts anyway and waits for the database. */
function noneYet(error: unknown): [] {
  if (error instanceof DatabaseUnavailable) return [];
  throw error;
}

/** Returns a function that writes a command of this program with the options for this service's data. */
function toCommand(
  { programName }: Invocation,
  { config, envFile }: { readonly config: Config; readonly envFile: string | undefined },
): (command: string) => string {
  const place = [
    ...(config.databaseUrl === undefined ? ["--data-dir", config.dataDir] : []),
    ...(envFile === undefined ? [] : ["--env-file", envFile]),
  ];
  return (command) => [programName, command, ...place.map(quoteShellWord)].join(" ");
}
