/**
 * Imports a report in a process of its own, and prints what became of it. Its arguments are the address of the database as JSON,
 * the report, and `answers` or `dies`: then it kills itself with SIGKILL when the statement has committed, before anybody gets
 * an answer.
 */
import { systemClock } from "../../../src/base/clock.ts";
import { silentLog } from "../../../src/base/log.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { importReport, openReportDatabase } from "../../../src/usage/mod.ts";
import { MUCH_ROOM } from "../../support/events.ts";
import { ACTOR, NOW } from "../../support/issue.ts";
import { parsed } from "./report_kit.ts";

const [, , address = "", text = "", end = "answers"] = process.argv;
const database = openReportDatabase(JSON.parse(address), { clock: systemClock, log: silentLog });
const dying: typeof database = {
  ...database,
  async query(build, options) {
    const rows = await database.query(build, options);
    // Only the statement of the import returns this column.
    const [row = {}] = rows as object[];
    if (end === "dies" && "months" in row) process.kill(process.pid, "SIGKILL");
    return rows as never[];
  },
};
const options = { actor: ACTOR, now: NOW, textBounds: MUCH_ROOM };
const result = await importReport(dying, await parsed(text), options);
process.stdout.write(isRefusal(result) ? result.sentence : result.outcome);
await database.close();
