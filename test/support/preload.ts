/** Loaded before all test files (`preload` in bunfig.toml): what is done once, after the last of them. */
import { afterAll } from "bun:test";
import { stopTestServer } from "./postgres.ts";

afterAll(stopTestServer);
