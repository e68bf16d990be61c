/** `claviger serve`: starts the service, says where it is, and stops it in order at SIGTERM or SIGINT. */
import type { Command } from "commander";
import { countKeys } from "../keys/mod.ts";
import { createLog } from "../log.ts";
import { type Service, startService } from "../service.ts";
import { addDemo, renderDemo } from "./demo.ts";
import { type PlaceOptions, withPlace } from "./options.ts";
import { orRefuse, readSettings } from "./run.ts";
import type { Surroundings } from "./surroundings.ts";

interface ServeOptions extends PlaceOptions {
  readonly host?: string;
  readonly port?: string;
  readonly demo: boolean;
}

const STOP_DEADLINE_MS = 10_000;

export function addServeCommand(program: Command, surroundings: Surroundings): void {
  withPlace(program.command("serve"))
    .description("run the service, and the database inside where no other is set")
    .option("--host <host>", "the address to listen on; 127.0.0.1 by default")
    .option("--port <port>", "the port; 8080 by default")
    .option("--demo", "fill an empty database with keys and models to try, and show them", false)
    .action((options: ServeOptions) => serve(surroundings, options));
}

async function serve(surroundings: Surroundings, options: ServeOptions): Promise<void> {
  // Before anything starts: a signal that arrives while it starts must not be lost.
  const stopped = surroundings.untilSignal();
  const { clock, platform, out } = surroundings;
  const config = readSettings(surroundings, options, {
    CLAVIGER_HOST: options.host,
    CLAVIGER_PORT: options.port,
  });
  const log = createLog({ format: config.logFormat, clock, write: surroundings.err });
  let demo: Awaited<ReturnType<typeof addDemo>>;
  const service = orRefuse(
    await startService({
      config,
      platform,
      clock,
      log,
      ...(options.demo && {
        beforeListening: async (opened) => {
          demo = await addDemo(opened, {
            brand: config.brand,
            userName: surroundings.userName,
            now: clock.now(),
          });
        },
      }),
    }),
  );

  const address = `http://${service.host.includes(":") ? `[${service.host}]` : service.host}:${service.port}`;
  out(`Claviger serves at ${address}\n`);
  out(`Its data is in ${service.place}\n`);
  if (options.demo) {
    out(
      demo === undefined
        ? "The database is not empty: no demo was added\n"
        : renderDemo(demo, { address, config }),
    );
  }
  await sayFirstStep(surroundings, service, options);

  log.info("Stopping", { signal: await stopped });
  await service.stop(STOP_DEADLINE_MS);
  log.info("Stopped");
}

/** While there are no keys, nobody can use the service: the operator is told how to issue the first. */
async function sayFirstStep({ out }: Surroundings, service: Service, options: ServeOptions): Promise<void> {
  if ((await countKeys(service.database)) > 0) return;
  const place = options.dataDir === undefined ? "" : ` --data-dir ${options.dataDir}`;
  out(
    `There are no keys yet; the first is issued by\n  claviger keys issue --email you@example.org --tier research${place}\n`,
  );
}
