/** Loaded before all test files (`preload` in bunfig.toml): what holds for all of them. */
import { afterAll } from "bun:test";
import { stopTestServer } from "./postgres.ts";

afterAll(stopTestServer);
