/** `claviger keys …`: the commands that change an issued key (suspend, resume, renew, tier, limit, rotate), and usage. */
import { Argument, type Command, Option } from "commander";
import { type Month, monthOf, SPAN, toTimestamp } from "../../calendar.ts";
import { parseId } from "../../ids.ts";
import { findKey, resumeKey, rotateKey, suspendKey, USUAL_OVERLAP } from "../../keys/mod.ts";
import {
  changeLicense,
  createLicenseChanges,
  type LicenseChange,
  refuseUnknownKey,
  TIERS,
  type Tier,
} from "../../licensing/mod.ts";
import { findUsageByDay, renderUsageByDay } from "../../usage/mod.ts";
import type { Invocation } from "../invocation.ts";
import {
  type ChangeOptions,
  expiryOption,
  idOption,
  limitOption,
  monthOption,
  parsedOption,
  withJsonOptions,
  withReason,
  withWords,
} from "../options.ts";
import { printFields, printJson, printTable } from "../print.ts";
import { orRefuse, withDatabase } from "../run.ts";

export function addKeyLifeCommands(keys: Command, invocation: Invocation): void {
  const command = (name: string, description: string) =>
    withReason(withJsonOptions(keys.command(name)))
      .description(description)
      .argument("<id>", "the key's id", idOption("key"));

  command("suspend", "suspend a key: it is refused until it is resumed").action(
    (uuid: string, options: ChangeOptions) =>
      setState(invocation, uuid, { options, change: suspendKey, state: "suspended" }),
  );
  command("resume", "resume a suspended key").action((uuid: string, options: ChangeOptions) =>
    setState(invocation, uuid, { options, change: resumeKey, state: "active" }),
  );
  command("renew", "give the key's license another expiry; also works after it has expired")
    .requiredOption("--expires-at <time>", "the new expiry: ISO 8601, or never", expiryOption)
    .action((uuid: string, options: ChangeOptions & { readonly expiresAt: Date }) =>
      change(invocation, uuid, { options, what: "expiry", change: { expiresAt: options.expiresAt } }),
    );
  command("tier", "give the key's license another tier")
    .addArgument(withWords(new Argument("<tier>", "the new tier"), TIERS))
    .action((uuid: string, tier: Tier, options: ChangeOptions) =>
      change(invocation, uuid, { options, what: "tier", change: { tier } }),
    );
  command("limit", "give the key's license a monthly limit of its own")
    .argument("<n>", "inferences a month, or none for the tier's own limit", limitOption)
    .action((uuid: string, monthlyLimit: number | null, options: ChangeOptions) =>
      change(invocation, uuid, { options, what: "monthly limit", change: { monthlyLimit } }),
    );
  command("rotate", "issue a second key for the same license; the old key works until the overlap ends")
    .addOption(
      new Option("--overlap <span>", "how long the old key still works, in days or hours, such as 7d or 12h")
        .argParser(parsedOption(SPAN))
        .default(SPAN.parse(USUAL_OVERLAP), USUAL_OVERLAP),
    )
    .action((uuid: string, options: ChangeOptions & { readonly overlap: number }) =>
      rotate(invocation, uuid, options),
    );

  withJsonOptions(keys.command("usage"))
    .description("show the use of the key's license by day; imported use has its own line")
    .argument("<id>", "the key's id", idOption("key"))
    .option("--month <month>", "the month, such as 2026-11; by default this month", monthOption)
    .action((uuid: string, options: ChangeOptions & { readonly month?: Month }) =>
      usage(invocation, uuid, options),
    );
}

async function setState(
  invocation: Invocation,
  uuid: string,
  {
    options,
    change,
    state,
  }: { readonly options: ChangeOptions; readonly change: typeof suspendKey; readonly state: string },
): Promise<void> {
  await withDatabase(invocation, options, async ({ database, actor, now }) => {
    orRefuse(await change(createLicenseChanges(database), uuid, { actor, now }));
    const key = await findKey(database, { uuid }, { now });
    const shown = { id: key?.id, state: key?.state ?? state };
    if (options.json) printJson(invocation, shown);
    else printFields(invocation, shown);
  });
}

async function change(
  invocation: Invocation,
  uuid: string,
  {
    options,
    what,
    change,
  }: { readonly options: ChangeOptions; readonly what: string; readonly change: LicenseChange },
): Promise<void> {
  await withDatabase(invocation, options, async ({ database, actor, now }) => {
    const { isChanged } = orRefuse(
      await changeLicense(createLicenseChanges(database), { keyUuid: uuid }, { change, actor, now }),
    );
    const key = orRefuse((await findKey(database, { uuid }, { now })) ?? refuseUnknownKey("show key", uuid));
    const shown = {
      id: key.id,
      license_id: key.licenseId,
      tier: key.tier,
      monthly_limit: key.monthlyLimit,
      state: key.state,
      expires_at: toTimestamp(key.expiresAt),
    };
    // The state and the expiry of a rotated key are not those of its license.
    const licenseExpiresAt = toTimestamp(key.licenseExpiresAt);
    if (options.json) {
      printJson(invocation, {
        ...shown,
        license_expires_at: licenseExpiresAt,
        replaced_by: key.replacedBy,
        changed: isChanged,
      });
      return;
    }
    printFields(invocation, { ...shown, monthly_limit: key.monthlyLimit ?? "unlimited" });
    if (!isChanged) invocation.err(`Nothing changed: the license has this ${what} already\n`);
    if (key.replacedBy === null) return;
    invocation.err(
      `This key was replaced by ${key.replacedBy}: the change applies to the license of both keys, which expires at ` +
        `${licenseExpiresAt}; the expiry of this key stays as it was\n`,
    );
  });
}

async function rotate(
  invocation: Invocation,
  uuid: string,
  options: ChangeOptions & { readonly overlap: number },
): Promise<void> {
  await withDatabase(invocation, options, async ({ config, database, actor, now }) => {
    const old = orRefuse(
      (await findKey(database, { uuid }, { now })) ?? refuseUnknownKey("rotate key", uuid),
    );
    const rotated = orRefuse(
      await rotateKey(
        createLicenseChanges(database),
        { uuid, mode: old.mode, overlapMs: options.overlap },
        { brand: config.brand, actor, now },
      ),
    );
    const shown = {
      id: rotated.id,
      api_key: rotated.apiKey,
      replaces: old.id,
      old_works_until: toTimestamp(rotated.oldWorksUntil),
    };
    if (options.json) return printJson(invocation, shown);
    printFields(invocation, shown);
    invocation.err("The key is shown only once: store it now\n");
  });
}

async function usage(
  invocation: Invocation,
  uuid: string,
  options: ChangeOptions & { readonly month?: Month },
): Promise<void> {
  await withDatabase(invocation, options, async ({ database, now }) => {
    const key = orRefuse(
      (await findKey(database, { uuid }, { now })) ?? refuseUnknownKey("show usage", uuid),
    );
    const month = options.month ?? monthOf(now.getTime());
    const licenseUuid = parseId("lic", key.licenseId) ?? "";
    const usage = await findUsageByDay(database, licenseUuid, month);
    const { used, imported, days } = usage;
    if (options.json) return printJson(invocation, renderUsageByDay(key, month, usage));
    const rows = days.filter((day) => day.used > 0).map((day) => ({ ...day }));
    const importedRow = imported === 0 ? [] : [{ day: "imported", used: imported }];
    printTable(invocation, [...importedRow, ...rows, { day: "total", used }]);
  });
}
