/** Implements the platform on Node: the same program as one `.mjs`, with an external PostgreSQL. */
import { hash } from "node:crypto";
import type { Platform } from "../mod.ts";
import { fileBody } from "./_file_body.ts";
import { listen } from "./_listen.ts";

export const nodePlatform: Platform = {
  name: "node",
  fileBody,
  sha256: (text, into) => into.set(hash("sha256", text, "buffer")),
  listen,
  lockOpenFile: () => false,
  tryLock(path) {
    // Never called: locks are for the data folder of the PostgreSQL inside, which this build does not have.
    throw new Error(`Cannot lock ${path}: this build has no file locks, so set DATABASE_URL`);
  },
  postgresArchive: () => Promise.resolve(undefined),
  postgresInside: () => undefined,
};
