/**
 * What a test file needs in all its tests: made before them in the order of the calls, closed after them in reverse order.
 * The calls stand at the top of the file.
 */
import { afterAll, afterEach, beforeAll, beforeEach } from "bun:test";
import type { Database } from "../../src/database/mod.ts";
import { startAdmin } from "./admin.ts";
import { createTestDatabase } from "./database.ts";
import { startHostingService } from "./hosted.ts";
import { startTestService } from "./service.ts";

interface Closable {
  close(): Promise<void>;
}

/** Makes a thing once for all tests of the file. Until then the returned object is empty. */
export function useForAll<Thing extends Closable>(make: () => Promise<Thing>): Thing {
  return useBetween({ before: beforeAll, after: afterAll, opened: openedForFile }, make);
}

/** Makes a thing anew for each test of the file. Before the first one the returned object is empty. */
export function useForEach<Thing extends Closable>(make: () => Promise<Thing>): Thing {
  return useBetween({ before: beforeEach, after: afterEach, opened: openedForTest }, make);
}

export function useTestDatabase(...options: Parameters<typeof createTestDatabase>) {
  return useForAll(() => createTestDatabase(...options));
}

/** The database alone, for a file that does not need its address. */
export function useDatabase(): Database {
  return useForAll(createDatabase);
}

export async function createDatabase(): Promise<Database> {
  const { database, close } = await createTestDatabase();
  return { ...database, close };
}

export function useTestService(...options: Parameters<typeof startTestService>) {
  return useForAll(() => startTestService(...options));
}

export function useHostingService(...options: Parameters<typeof startHostingService>) {
  return useForAll(() => startHostingService(...options));
}

export function useAdmin(...options: Parameters<typeof startAdmin>) {
  return useForAll(() => startAdmin(...options));
}

/**
 * The first database of a bare `bun test` starts PostgreSQL and migrates it, which takes longer than a test may take on a
 * busy machine. After the limit Bun would also kill that PostgreSQL, and all later files would fail.
 */
const MAKING_LIMIT_MS = 120_000;

const openedForFile: Closable[] = [];
const openedForTest: Closable[] = [];

interface Hooks {
  readonly before: (run: () => Promise<void>, limitMs: number) => void;
  readonly after: (run: () => Promise<void>) => void;
  /** What these hooks have made and not closed yet. */
  readonly opened: Closable[];
}

function useBetween<Thing extends Closable>(
  { before, after, opened }: Hooks,
  make: () => Promise<Thing>,
): Thing {
  const thing = {} as Thing;
  before(async () => {
    const made = await make();
    opened.push(made);
    // Getters stay getters: the lines of a log are read when a test asks for them.
    Object.defineProperties(thing, Object.getOwnPropertyDescriptors(made));
  }, MAKING_LIMIT_MS);
  // Each hook closes the newest thing, because Bun runs them in the order of the calls, and a service has to be closed
  // before its database.
  after(async () => await opened.pop()?.close());
  return thing;
}
