/** Loaded before all test files (`preload` in bunfig.toml): what holds for all of them. */
import { afterAll, setDefaultTimeout } from "bun:test";
import { stopTestServer } from "./postgres.ts";

/** A test ends by itself well before; on a busy machine, making a database alone may take Bun's own 5 s. */
const TEST_LIMIT_MS = 30_000;

setDefaultTimeout(TEST_LIMIT_MS);
afterAll(stopTestServer);
