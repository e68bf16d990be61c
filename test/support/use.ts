/**
 * What a test file needs in all its tests: made before them, closed after them. Such a call stands at the top of the file,
 * and also sets the time limit of the file's tests, because a preloaded file can set it for the first file only.
 *
 * The hooks of a file run in the order in which they stand there, those that close too. A thing that has to be closed
 * before another one needs hooks of its own.
 */
import { afterAll, afterEach, beforeAll, beforeEach, setDefaultTimeout } from "bun:test";
import { startAdmin } from "./admin.ts";
import { createTestDatabase } from "./database.ts";
import { startHostingService } from "./hosted.ts";
import { startTestService } from "./service.ts";

/** A test ends well before. On a busy machine, creating a database can take longer than Bun's default limit of 5 s. */
const LIMIT_MS = 30_000;

interface Closable {
  close(): Promise<void>;
}

/** Makes a thing once for all tests of the file. Until then the returned object is empty. */
export function useForAll<Thing extends Closable>(make: () => Promise<Thing>): Thing {
  setDefaultTimeout(LIMIT_MS);
  const { thing, replace } = createHolder<Thing>();
  beforeAll(async () => replace(await make()));
  afterAll(() => thing.close());
  return thing;
}

/** Makes a thing anew for each test of the file. Before the first one the returned object is empty. */
export function useForEach<Thing extends Closable>(make: () => Promise<Thing>): Thing {
  setDefaultTimeout(LIMIT_MS);
  const { thing, replace } = createHolder<Thing>();
  beforeEach(async () => replace(await make()));
  afterEach(() => thing.close());
  return thing;
}

export function useTestDatabase(...options: Parameters<typeof createTestDatabase>) {
  return useForAll(() => createTestDatabase(...options));
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

/** Returns an object that a test file can name before the thing exists; `replace` gives it all that the thing has. */
function createHolder<Thing>() {
  const thing = {} as Thing;
  return {
    thing,
    replace(made: Thing) {
      // Getters stay getters: the lines of a log are read when a test asks for them.
      Object.defineProperties(thing, Object.getOwnPropertyDescriptors(made));
    },
  };
}
