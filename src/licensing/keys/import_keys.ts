/**
 * Imports keys that customers already have from another system: one line for each key, all or nothing.
 *
 * A line contains the key itself or its SHA-256, so that a system that stores only hashes can export its keys.
 */
import * as v from "valibot";
import { auditCte, type By } from "../../audit/mod.ts";
import { END, toTimestamp } from "../../base/calendar.ts";
import { newUuid } from "../../base/ids.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { booleanField, numberField, type ParsingRule, parsedField, wordField } from "../../base/rule.ts";
import { redactKeys } from "../../base/secrets/mod.ts";
import { constraintOf, type DatabaseSession, type Fragment, type Sql } from "../../database/mod.ts";
import type { Brand } from "../mod.ts";
import {
  allowanceTypes,
  ERASED,
  ERASING,
  EXPIRY,
  EXTERNAL_ID_UNIQUE,
  endOfNew,
  findWrongEnd,
  importedLicenseCtes,
  isErased,
  type KeyMode,
  lacksPlaces,
  MAX_MACHINES,
  MAX_OFFLINE_DAYS,
  MODES,
  MONTHLY_LIMIT,
  NEEDS_BOTH,
  nameFor,
  OWN_ENTITLEMENTS,
  OWN_ENTITLEMENTS_FIELD,
  OWN_FEATURES,
  OWN_FEATURES_FIELD,
  oneYearAfter,
  requestedEndOf,
  SEAT_MINUTES,
  SELF_RELEASES,
  TERM_DAYS,
  TEXT_RULES,
  TIERS,
  withTerms,
} from "../mod.ts";
import { refuseDuplicateExternalId, refuseDuplicateKey } from "./_refuse_duplicate.ts";
import { hashApiKey, keyForm, keyPattern, modeOf, type NewApiKey, toHint } from "./api_key.ts";

/** Returns the schema of values by their names: an object as the API has it, or a text, because CSV has no objects. */
function textOr<Value>(rule: ParsingRule<Value>, object: v.GenericSchema<unknown, Value>) {
  return v.lazy((given) => (typeof given === "string" ? parsedField(rule) : object));
}

/** The fields of a line. A line has either the key, or its hash and the mode. */
const importLine = v.strictObject({
  api_key: v.optional(v.string("must be a string")),
  sha256: v.optional(
    v.pipe(
      v.string("must be a string"),
      v.regex(/^[0-9a-f]{64}$/, "must be 64 lowercase hexadecimal digits"),
    ),
  ),
  mode: v.optional(wordField(MODES)),
  email: parsedField(TEXT_RULES.email),
  name: v.optional(parsedField(TEXT_RULES.name)),
  organization: v.optional(parsedField(TEXT_RULES.organization), ""),
  tier: wordField(TIERS),
  /** By default one year after the import. */
  expires_at: v.nullish(parsedField(EXPIRY)),
  /** A license that starts on its first use has the days of its term, and no expiry. */
  starts_on_first_use: v.nullish(booleanField()),
  term_days: v.nullish(numberField(TERM_DAYS)),
  /** By default one year after the import. */
  latest_start: v.nullish(parsedField(END)),
  /** By default every version of a model is for the license. */
  updates_until: v.nullish(parsedField(END)),
  monthly_limit: v.nullish(numberField(MONTHLY_LIMIT)),
  max_machines: v.nullish(numberField(MAX_MACHINES)),
  seat_minutes: v.nullish(numberField(SEAT_MINUTES)),
  self_releases: v.nullish(numberField(SELF_RELEASES)),
  shows_machines: v.nullish(booleanField()),
  max_offline_days: v.nullish(numberField(MAX_OFFLINE_DAYS)),
  used: v.nullish(numberField(MONTHLY_LIMIT), 0),
  /** By default as the tier has them. */
  own_features: v.nullish(textOr(OWN_FEATURES, OWN_FEATURES_FIELD)),
  /** By default those of the tier. */
  own_entitlements: v.nullish(textOr(OWN_ENTITLEMENTS, OWN_ENTITLEMENTS_FIELD)),
  external_id: v.nullish(parsedField(TEXT_RULES.external_id)),
});

export type ImportLine = v.InferInput<typeof importLine>;

/** The fields of a valid line, with what its key is stored as. */
export interface ImportedKey
  extends Omit<v.InferOutput<typeof importLine>, "api_key" | "sha256" | "mode">,
    Pick<NewApiKey, "hash" | "hint"> {
  readonly mode: KeyMode;
}

/** A key with the number of its line. */
export interface LineOfImport {
  readonly key: ImportedKey;
  readonly line: number;
}

/** The names of the fields of a line. */
export const IMPORT_FIELDS: readonly string[] = Object.keys(importLine.entries);

/** Reads one line of JSON. The refusal says what is wrong in the line and never contains the key. */
export function parseImportLine(line: string, brand: Brand): ImportedKey | Refusal {
  let fields: unknown;
  try {
    fields = JSON.parse(line);
  } catch {
    return refuse("INVALID_REQUEST", "it is not JSON");
  }
  return parseImportFields(fields, brand);
}

/** Reads the fields of one line, as {@linkcode parseImportLine} does. */
export function parseImportFields(fields: unknown, brand: Brand): ImportedKey | Refusal {
  const wrong = (what: string) => refuse("INVALID_REQUEST", what);
  if (typeof fields !== "object" || fields === null || Array.isArray(fields))
    return wrong("it is not a JSON object");
  const parsed = v.safeParse(importLine, fields);
  if (!parsed.success) {
    const [issue] = parsed.issues;
    // A name that was given may be any text, even a key.
    const field = redactKeys(v.getDotPath(issue) ?? "");
    const [known = ""] = field.split(".", 1);
    if (!Object.hasOwn(importLine.entries, known)) return wrong("it has a field that is not known");
    return wrong(
      `${field} ${issue.type === "strict_object" && issue.received === "undefined" ? "is missing" : issue.message}`,
    );
  }
  const { api_key: apiKey, sha256, mode, ...rest } = parsed.output;
  if ((apiKey === undefined) === (sha256 === undefined))
    return wrong("it needs api_key or sha256, and not both");
  if (apiKey !== undefined && !keyPattern(brand).test(apiKey)) {
    return wrong(`api_key must be ${keyForm(brand)}`);
  }
  if (sha256 !== undefined && mode === undefined) return wrong("sha256 needs mode, live or test");
  if (apiKey !== undefined && mode !== undefined && mode !== modeOf(apiKey))
    return wrong("mode and api_key differ");
  if (isErased(rest)) return wrong(`email names no account: ${ERASED}`);
  if (lacksPlaces({ maxMachines: rest.max_machines, seatMinutes: rest.seat_minutes }))
    return wrong(NEEDS_BOTH);
  const wrongEnd = findWrongEnd(requestedEndOf(rest));
  if (wrongEnd !== undefined) return wrong(wrongEnd.error);
  const keyMode = apiKey === undefined ? (mode ?? "live") : modeOf(apiKey);
  return {
    ...rest,
    hash: sha256 ?? hashApiKey(apiKey ?? ""),
    hint: apiKey === undefined ? `${brand.name}_${keyMode}_…` : toHint(apiKey),
    mode: keyMode,
  };
}

interface ImportOptions extends By {
  /** True refuses in the same cases, and imports nothing. */
  readonly isDryRun?: boolean;
  /**
   * Returns the CTE that writes the month's use from a relation `line` with `license_id` and `used`: another room
   * owns that table.
   */
  readonly usageCte: (sql: Sql) => Fragment;
  /** Called after each chunk with the number of imported lines. */
  readonly onProgress?: (done: number) => void;
}

const DRY_RUN = new Error("A dry run is undone");

/** The number of rows in one statement: large enough to be fast, small enough to show progress. */
const CHUNK_SIZE = 5_000;

/**
 * Imports keys in one transaction: creates a license and a key for each line, under the account of its e-mail.
 * If a key or an external id is known already or is on two lines, refuses all lines and names the line.
 */
export async function importKeys(
  session: DatabaseSession,
  lines: readonly LineOfImport[],
  options: ImportOptions,
): Promise<{ readonly imported: number } | Refusal> {
  try {
    await session.transaction(async (sql) => {
      for (let from = 0; from < lines.length; from += CHUNK_SIZE) {
        const chunk = lines.slice(from, from + CHUNK_SIZE);
        await insertChunk(sql, chunk, options);
        options.onProgress?.(from + chunk.length);
      }
      // Only the database knows which keys exist, so a dry run inserts all lines, too, and undoes it.
      if (options.isDryRun) throw DRY_RUN;
    });
  } catch (error) {
    if (error === DRY_RUN) return { imported: lines.length };
    const constraint = constraintOf(error);
    if (constraint === "key_has_license")
      return refuse("CONFLICT", `Cannot import keys: a line names an account, but ${ERASING}`);
    if (constraint === "key_hash_unique") return await refuseDuplicateKey(session, lines);
    if (constraint === EXTERNAL_ID_UNIQUE) return await refuseDuplicateExternalId(session, lines);
    throw error;
  }
  return { imported: lines.length };
}

async function insertChunk(
  sql: Sql,
  chunk: readonly LineOfImport[],
  { actor, now, usageCte }: ImportOptions,
): Promise<void> {
  const rows = JSON.stringify(
    chunk
      .map(({ key }) => ({ key, ...endOfNew(requestedEndOf(key), oneYearAfter(now)) }))
      .map(({ key, expiresAt, term }) => ({
        ...key,
        account_id: newUuid(),
        license_id: newUuid(),
        key_id: newUuid(),
        hash: `\\x${key.hash}`,
        name: key.name ?? nameFor(key.email),
        expires_at: toTimestamp(expiresAt),
        latest_start: term && toTimestamp(term.latestStart),
        updates_until: key.updates_until && toTimestamp(key.updates_until),
        own_features: key.own_features ?? {},
        own_entitlements: key.own_entitlements ?? {},
      })),
  );
  await sql`
    with line as (
      select * from jsonb_to_recordset(${rows}::text::jsonb) as line (
        account_id uuid, license_id uuid, key_id uuid, hash bytea, hint text, mode text, email text, name text,
        organization text, tier text, expires_at timestamptz, term_days integer, latest_start timestamptz,
        started_at timestamptz, monthly_limit bigint, ${allowanceTypes(sql)}, updates_until timestamptz,
        own_features jsonb, own_entitlements jsonb, used bigint, external_id text)
    ),
    ${importedLicenseCtes(sql, now)},
    key as (
      insert into keys (id, license_id, hash, hint, mode, created_at)
      select key_id, license_id, hash, hint, mode, ${now}::timestamptz from line
      returning id
    ),
    used as (${usageCte(sql)}),
    made as (
      select license.account_id, license.id as license_id, line.key_id, null::jsonb as before,
             jsonb_build_object('tier', line.tier, 'mode', line.mode,
               'monthly_limit', line.monthly_limit, 'used', line.used, 'expires_at', line.expires_at)
               ${withTerms(sql, sql`line`)} as after
        from line join license on license.id = line.license_id
    )
    ${auditCte(sql, { action: "key.import", actor, at: now, from: sql`made` })}`;
}
