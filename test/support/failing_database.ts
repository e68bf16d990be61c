/** Faults of the database that a test can switch on and off. */
import type { TestService } from "./service.ts";

/**
 * Runs `body` while the service cannot feel its pulse and has noticed: the table that the pulse reads has
 * another name meanwhile.
 */
export async function whileDatabaseFails(service: TestService, body: () => Promise<void>): Promise<void> {
  const { database, clock } = service;
  await database.query((sql) => sql`alter table keys rename to keys_away`);
  try {
    clock.advance(1_000);
    await body();
  } finally {
    await database.query((sql) => sql`alter table keys_away rename to keys`);
    await service.service.directory.beat();
  }
}

/** Runs `body` while a statement fails as nobody expects: the registry's table has another name. */
export async function whileRegistryIsBroken(
  { database }: TestService,
  body: () => Promise<void>,
): Promise<void> {
  await database.query((sql) => sql`alter table models rename to models_away`);
  try {
    await body();
  } finally {
    await database.query((sql) => sql`alter table models_away rename to models`);
  }
}
