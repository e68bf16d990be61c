/** Tokens of programs: issue, and the check of each request. Only the SHA-256 of a token is stored. */
import { auditCte, type By, nameOfActor } from "../audit/mod.ts";
import { PAST_EXPIRY } from "../base/calendar.ts";
import { newUuid } from "../base/ids.ts";
import { parseTrustedProxies } from "../base/rate_limits/mod.ts";
import { type Refusal, refuse, type WrongField } from "../base/refusal.ts";
import type { ParsingRule } from "../base/rule.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import type { Brand, KeyMode, Restriction, Tier } from "../licensing/mod.ts";
import { hashOf, randomDigits } from "./_secret_text.ts";
import { NAME_RULE } from "./people.ts";
import { isTooWide, SCOPES, SCOPES_RULE, type Scope } from "./scopes.ts";

/** A token, as the checks of a request need it. */
export interface Token {
  /** Identifies the token; renewing the token keeps it. */
  readonly uuid: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly restriction: Restriction;
  /** The networks from which the token is accepted, such as `10.0.0.0/8`; undefined for every address. */
  readonly sources: readonly string[] | undefined;
}

export interface TokenRequest extends Pick<Token, "name" | "scopes" | "restriction"> {
  readonly sources?: readonly string[] | undefined;
  readonly expiresAt?: Date | undefined;
}

/** Returns the pattern of tokens: `svc_op_` and 48 lowercase hexadecimal digits, with the brand's name as prefix. */
export function tokenPattern(brand: Brand): RegExp {
  return new RegExp(`^${brand.name}_op_[0-9a-f]{48}$`);
}

/** Generates a token, which has 192 random bits. */
export function generateToken(brand: Brand): string {
  return `${brand.name}_op_${randomDigits(192)}`;
}

/** The most networks of one token. */
const MAX_SOURCES = 32;

/** The rule for the addresses and networks of a token, separated by commas. */
export const SOURCES_RULE: ParsingRule<readonly string[]> = {
  expects: `1 to ${MAX_SOURCES} addresses and networks such as 10.0.0.0/8`,
  parse(text) {
    const sources = text.split(",").map((source) => source.trim());
    const parsed = sources.map((source) => parseTrustedProxies(source));
    const isRight = parsed.every((each) => each.ok && each.proxies.length === 1);
    return isRight && sources.length <= MAX_SOURCES ? sources : undefined;
  },
};

/** Returns the restriction of a token with these scopes. */
export function toRestriction({ scopes, tiers, mode }: Restriction & Pick<Token, "scopes">): Restriction {
  return { tiers, mode, joins: scopes.includes("accounts:join") };
}

/**
 * Issues a token. Refuses a name that was used before or has a wrong form, no scope, a scope that a restricted token
 * cannot have, an expiry that has passed, and sources that are not addresses or networks. The text of the token is not
 * stored, so it cannot be shown again.
 */
export async function issueToken(
  database: Database,
  request: TokenRequest,
  { brand, actor, now }: By & { readonly brand: Brand },
): Promise<{ readonly token: string } | Refusal> {
  const { name, scopes, restriction, sources, expiresAt } = request;
  const wrong = findWrong(request, now);
  if (wrong !== undefined)
    return refuse("INVALID_REQUEST", `Cannot issue token: ${wrong.error}`, { fields: [wrong] });
  const token = generateToken(brand);
  const [issued] = await database.query(
    (sql) => sql`
      with made as (
        insert into tokens (id, name, hash, scopes, tiers, mode, sources, created_by, created_at, renewed_at, expires_at)
        values (${newUuid()}::uuid, ${name}, ${hashOf(token)}::text::bytea, ${toTextArray(scopes)}::text[],
                ${restriction.tiers ? toTextArray(restriction.tiers) : null}::text[], ${restriction.mode ?? null},
                ${sources ? toTextArray(sources) : null}::text[], ${nameOfActor(actor)}, ${now}::timestamptz,
                ${now}::timestamptz, ${expiresAt ?? null}::timestamptz)
        on conflict on constraint token_name_unique do nothing
        returning null::jsonb as before,
                  jsonb_build_object('token', name, 'scopes', scopes, 'tiers', tiers, 'mode', mode,
                    'sources', sources, 'expires_at', expires_at) as after
      )
      ${auditCte(sql, { action: "token.issue", actor, at: now, from: sql`made` })} returning id`,
  );
  const used = `Cannot issue token: the name ${name} was used before; choose another name`;
  const fields = [{ field: "name", error: "the name was used before; choose another name" }];
  return issued === undefined ? refuse("ALREADY_EXISTS", used, { fields }) : { token };
}

/** Returns the wrong field of a request, with the fault as a phrase. */
function findWrong(request: TokenRequest, now: Date): WrongField | undefined {
  const { name, scopes, restriction, sources, expiresAt } = request;
  if (NAME_RULE.parse(name) === undefined)
    return { field: "name", error: `a name must be ${NAME_RULE.expects}` };
  if (scopes.length === 0)
    return { field: "scopes", error: `it needs at least one scope of ${SCOPES.join(", ")}` };
  if (isTooWide(restriction, scopes)) return { field: "scopes", error: SCOPES_RULE };
  if (expiresAt !== undefined && expiresAt <= now) return { field: "expires_at", error: PAST_EXPIRY };
  if (sources === undefined || SOURCES_RULE.parse(sources.join(","))) return undefined;
  return { field: "from", error: `its sources must be ${SOURCES_RULE.expects}` };
}

/**
 * Finds the active tokens among these texts, in one statement, so that a revoked token is refused from the next request
 * on. Writes their last use, at most once a minute. Returns the tokens by their texts.
 */
export async function findTokens(
  database: Database,
  texts: readonly string[],
  { now }: { readonly now: Date },
): Promise<ReadonlyMap<string, Token>> {
  // `n` is the number of the token's text among those that were asked for, from 1.
  const rows = await database.query<TokenColumns & { readonly n: number; readonly uuid: string }>(
    (sql) => sql`
      with found as (
        select n, id, name, scopes, tiers, mode, sources
          from unnest(${toTextArray(texts.map(hashOf))}::text[]::bytea[]) with ordinality as asked (hash, n)
               join tokens on tokens.hash = asked.hash
         where ${isAccepted(sql, now)}
      ),
      -- A row that another statement has locked is left out: two statements must not wait for each other.
      idle as (
        select id from tokens
         where id in (select id from found)
           and (last_used_at is null or last_used_at <= ${now}::timestamptz - interval '1 minute')
           for no key update skip locked
      ),
      used as (update tokens t set last_used_at = ${now}::timestamptz from idle where t.id = idle.id)
      select n::int, id as uuid, ${tokenColumns(sql)} from found`,
  );
  return new Map(rows.map(({ n, ...row }) => [texts[n - 1] ?? "", toToken(row)]));
}

/** Returns the condition, as SQL, that a row of `tokens` is accepted. */
export function isAccepted(sql: Sql, now: Date): Fragment {
  return sql`(state = 'active' and (expires_at is null or expires_at > ${now}::timestamptz))`;
}

/** Returns the columns of a token from which {@linkcode toToken} makes its facts. */
export function tokenColumns(sql: Sql): Fragment {
  // As JSON: the driver does not parse arrays.
  return sql`name, to_json(scopes) as scopes, to_json(tiers) as tiers, mode, to_json(sources) as sources`;
}

/** Turns the columns of a token into its facts; other columns stay as they are. */
export function toToken<Row extends TokenColumns>({ tiers, mode, sources, ...row }: Row) {
  const restriction = toRestriction({ ...row, tiers: tiers ?? undefined, mode: mode ?? undefined });
  return { ...row, restriction, sources: sources ?? undefined };
}

export interface TokenColumns {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly tiers: readonly Tier[] | null;
  readonly mode: KeyMode | null;
  readonly sources: readonly string[] | null;
}
