/** The state of the service, for monitoring. */
import * as v from "valibot";
import { toTimestamp } from "../../calendar.ts";
import { VERSION } from "../../version.ts";
import { oneOfThese, timestamp } from "../../wire/mod.ts";
import { route, titled } from "../frame/api/route.ts";

const FINDING = titled("Finding", {
  name: v.string(),
  state: oneOfThese(["ok", "warn", "fail", "skip"]),
  message: v.string(),
  remedy: v.optional(v.string()),
});

export const getStatus = route("GET /status", "status:read", {
  id: "getStatus",
  summary: "Tell what works, what will soon fail, and what is wrong",
  description:
    "A short form of the command `doctor`: the disk, the database server and the schema. The answer is at most 60 " +
    "seconds old, and makes no request to other hosts. A finding that is not `ok` has a remedy.",
  success: {
    schema: v.object({
      ok: v.pipe(v.boolean(), v.description("False if a finding is `fail`")),
      version: v.string(),
      checked_at: timestamp(),
      findings: v.array(FINDING),
    }),
    description: "The findings",
  },
  async run({ examination }) {
    const { at, findings } = examination();
    const found = await findings;
    return {
      ok: found.every(({ state }) => state !== "fail"),
      version: VERSION,
      checked_at: toTimestamp(at),
      findings: found,
    };
  },
});
