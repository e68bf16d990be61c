/** Sets up the things that all test files share. Bun loads this file before them (`preload` in bunfig.toml). */
import { afterAll } from "bun:test";
import { readFileSync } from "node:fs";
import { plugin } from "bun";
import "./compare_dates.ts";
import { keepInMemory, stopTestServer } from "./postgres.ts";

/**
 * The first statement of each test file sets its time limit: Bun 1.4.5 has no setting for it, and forgets a limit that
 * another file has set. A test ends well before 30 s. On a busy machine, creating a database can take longer than Bun's limit of 5 s.
 */
const LIMIT = 'import.meta.require("bun:test").setDefaultTimeout(30_000);';

plugin({
  name: "time limit",
  setup(build) {
    build.onLoad({ filter: /_test\.tsx?$/ }, ({ path }) => ({
      loader: path.endsWith("x") ? "tsx" : "ts",
      // In the first line, so that the numbers of lines stay.
      contents: `${LIMIT} ${readFileSync(path, "utf8")}`,
    }));
  },
});
keepInMemory();
afterAll(stopTestServer);
