/** Makes the database fail while a test runs a piece of code. */
import type { TestService } from "./service.ts";

/**
 * Runs `body` while the service's pulse fails and the service has noticed: meanwhile the table that the pulse reads
 * has another name.
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

/**
 * Runs `body` while a statement fails with an unexpected error: meanwhile the registry's table has another
 * name.
 */
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
