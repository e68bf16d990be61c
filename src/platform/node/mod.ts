/** Claviger on Node: the same program as one `.mjs`, with an external PostgreSQL. */
import { hash } from "node:crypto";
import type { Platform } from "../mod.ts";
import { fileBody } from "./_file_body.ts";
import { listen } from "./_listen.ts";

export const nodePlatform: Platform = {
  name: "node",
  fileBody,
  sha256: (text, into) => into.set(hash("sha256", text, "buffer")),
  listen,
  tryLock(path) {
    // Nobody comes here: what is locked is the data folder of a PostgreSQL inside, and there is none.
    throw new Error(`Cannot lock ${path}: this build has no file locks, so set DATABASE_URL`);
  },
  postgresArchive: () => Promise.resolve(undefined),
};
