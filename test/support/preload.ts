/** Sets up the things that all test files share. Bun loads this file before them (`preload` in bunfig.toml). */
import { afterAll } from "bun:test";
import { keepInMemory, stopTestServer } from "./postgres.ts";

keepInMemory();
afterAll(stopTestServer);
