/** `claviger keys …`: the commands that change an issued key, and usage. `key_license_commands.ts` has those of its license. */
import { MONTH, monthOf, SPAN, toTimestamp } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { renderCount } from "../../base/render_count.ts";
import {
  findKey,
  replaceKey,
  resumeKey,
  rotateKey,
  suspendKey,
  USUAL_OVERLAP,
} from "../../licensing/keys/mod.ts";
import { createLicenseChanges } from "../../licensing/mod.ts";
import { findUsageByDay, renderUsageByDay } from "../../usage/mod.ts";
import { type DatabaseCall, databaseCommand } from "../command.ts";
import { demandKey } from "../find_named.ts";
import { KEY_ID, REASON } from "../options.ts";
import { option } from "../parameter.ts";
import { findRemains } from "../remains.ts";
import { orRefuse } from "../run.ts";
import { keyLicenseCommands } from "./key_license_commands.ts";

export const ONCE = "The key is shown only once: store it now";

const suspend = databaseCommand({
  name: "suspend",
  description: "suspend a key: it is refused until it is resumed",
  arguments: KEY_ID,
  options: REASON,
  run: ({ id }, call) => setState(call, id, { change: suspendKey, state: "suspended" }),
});

const resume = databaseCommand({
  name: "resume",
  description: "resume a suspended key",
  arguments: KEY_ID,
  options: REASON,
  run: ({ id }, call) => setState(call, id, { change: resumeKey, state: "active" }),
});

const rotate = databaseCommand({
  name: "rotate",
  description: "issue a second key for the same license; the old key works until the overlap ends",
  arguments: KEY_ID,
  options: {
    ...REASON,
    overlap: option("how long the old key still works, in days or hours, such as 7d or 12h", SPAN, {
      as: "span",
      default: SPAN.parse(USUAL_OVERLAP) ?? 0,
      shownDefault: USUAL_OVERLAP,
    }),
  },
  async run({ id: uuid, overlap: overlapMs }, call) {
    const { config, database, actor, now, print } = call;
    const old = await demandKey(call, uuid, "rotate key");
    const { id: replaces, mode } = old;
    const change = { uuid, mode, overlapMs };
    const by = { brand: config.brand, actor, now };
    const rotated = orRefuse(await rotateKey(createLicenseChanges(database), change, by));
    print.fields({
      id: rotated.id,
      api_key: rotated.apiKey,
      replaces,
      old_works_until: toTimestamp(rotated.oldWorksUntil),
    });
    print.note(ONCE);
    const remains = await findRemains(call, old);
    if (remains) print.note(`Of the old key: ${remains}`);
  },
});

const replace = databaseCommand({
  name: "replace",
  description: "issue a new key for the license of a revoked key",
  arguments: KEY_ID,
  options: REASON,
  async run({ id: uuid }, call) {
    const { config, database, actor, now, print } = call;
    const { id: replaces, mode, licenseExpiresAt } = await demandKey(call, uuid, "replace key");
    const by = { brand: config.brand, actor, now };
    const { id, apiKey } = orRefuse(await replaceKey(createLicenseChanges(database), { uuid, mode }, by));
    print.fields({ id, api_key: apiKey, replaces });
    print.note(ONCE);
    if (licenseExpiresAt <= now) print.note("Its license has expired: renew it, so that the key works");
  },
});

const usage = databaseCommand({
  name: "usage",
  description: "show the use of the key's license by day; imported use has its own line",
  arguments: KEY_ID,
  options: { month: option("the month, such as 2026-11; by default this month", MONTH) },
  async run({ id, month: given }, call) {
    const key = await demandKey(call, id, "show usage");
    const month = given ?? monthOf(call.now.getTime());
    const use = await findUsageByDay(call.database, parseId("lic", key.licenseId) ?? "", month);
    const { used, imported, over, days } = use;
    const rows = days.filter((day) => day.used > 0).map((day) => ({ ...day }));
    const importedRow = imported === 0 ? [] : [{ day: "imported", used: imported }];
    call.print.table([...importedRow, ...rows, { day: "total", used }], renderUsageByDay(key, month, use));
    if (over > 0) call.print.note(`Beyond the limit, from imported reports: ${renderCount(over)}`);
  },
});

export const keyLifeCommands = [suspend, resume, ...keyLicenseCommands, rotate, replace, usage];

async function setState(
  call: DatabaseCall,
  uuid: string,
  { change, state }: { readonly change: typeof suspendKey; readonly state: string },
): Promise<void> {
  const { database, actor, now, print } = call;
  orRefuse(await change(createLicenseChanges(database), uuid, { actor, now }));
  const key = await findKey(database, { uuid }, { now });
  print.fields({ id: key?.id, state: key?.state ?? state });
  const remains = key?.state === "suspended" && (await findRemains(call, key));
  if (remains) print.note(remains);
}
