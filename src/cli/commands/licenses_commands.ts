/** `claviger licenses …`: signed licenses for clients without a network. `signing_keys_commands.ts` has their keys. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { toTimestamp } from "../../calendar.ts";
import type { Config } from "../../config/mod.ts";
import { readNamedFile } from "../../read_regular_file.ts";
import {
  CLIENT_TEXT,
  checkLicense,
  createLicenseSigner,
  EXPORT_DAYS,
  isTime,
  LICENSE_FILE_LIMIT_BYTES,
  listOutstanding,
  listSigningKeys,
  parseJwks,
  parseLicenseFile,
  renderExport,
  USUAL_EXPORT_DAYS,
} from "../../signed_licenses/mod.ts";
import { renderFileFailure } from "../failures.ts";
import type { Invocation } from "../invocation.ts";
import {
  type ChangeOptions,
  idOption,
  type JsonOptions,
  parsedOption,
  wholeNumberOption,
  withJsonOptions,
  withReason,
} from "../options.ts";
import { printFields, printJson, printNote, printTable } from "../print.ts";
import { CommandRefused, orRefuse, readSettings, withDatabase } from "../run.ts";
import { addSigningKeysCommands, openSigningSecrets } from "./signing_keys_commands.ts";

const MAX_ROWS = 100_000;

/** Adds the group `licenses`. */
export function addLicensesCommands(program: Command, invocation: Invocation): void {
  const licenses = program
    .command("licenses")
    .description("sign and verify licenses for use without a network, and manage the keys that sign them");

  const exporting = withJsonOptions(licenses.command("export"))
    .description("sign the license of a key as a file, for a customer without a network")
    .argument("<id>", "the key's id", idOption("key"))
    .option("--days <n>", "how many days it is valid", parsedOption(EXPORT_DAYS), USUAL_EXPORT_DAYS)
    .option(
      "--fingerprint <text>",
      "the fingerprint of the only machine that may use the license",
      parsedOption(CLIENT_TEXT),
    )
    .option("--nonce <text>", "a text to repeat in the license", parsedOption(CLIENT_TEXT));
  withReason(exporting).action((keyUuid: string, options: ExportOptions) =>
    exportLicense(invocation, keyUuid, options),
  );

  withJsonOptions(licenses.command("verify"))
    .description("show what a license says, and whether it is valid now")
    .argument("<file>", "a license file, or a file with the JWS alone")
    .option(
      "--jwks <file>",
      "the public keys to trust, a JWK set; without it, the command trusts the keys of this installation",
    )
    .action((file: string, options: VerifyOptions) => verify(invocation, file, options));

  withJsonOptions(licenses.command("outstanding"))
    .description("list the licenses that were signed and are still valid, the latest expiry first")
    .option("--key <id>", "only licenses of this key", idOption("key"))
    .option("--limit <n>", "show at most this many rows", wholeNumberOption(1, MAX_ROWS), 100)
    .action((options: OutstandingOptions) => showOutstanding(invocation, options));

  addSigningKeysCommands(licenses, invocation);
}

interface ExportOptions extends ChangeOptions {
  readonly days: number;
  readonly fingerprint?: string;
  readonly nonce?: string;
}

interface VerifyOptions extends JsonOptions {
  readonly jwks?: string;
}

interface OutstandingOptions extends JsonOptions {
  readonly key?: string;
  readonly limit: number;
}

async function exportLicense(invocation: Invocation, keyUuid: string, options: ExportOptions): Promise<void> {
  await withDatabase(invocation, options, async (context) => {
    const { config, database, actor, now } = context;
    const secrets = await openSigningSecrets(context);
    const signer = createLicenseSigner({ ...config, database, secrets });
    const { days, fingerprint, nonce } = options;
    const signed = orRefuse(await signer.export({ keyUuid, days, fingerprint, nonce, actor, now }));
    const exported = renderExport(signed);
    if (options.json) return printJson(invocation, exported);
    invocation.out(exported.file);
    printNote(
      invocation,
      `The license is valid until ${exported.expires_at}; a revocation of the key does not end it earlier`,
    );
  });
}

async function verify(invocation: Invocation, file: string, options: VerifyOptions): Promise<void> {
  const jws = parseLicenseFile(readText(invocation, file));
  if (jws === undefined) throw new CommandRefused(`Cannot verify ${file}: it holds no license`);
  const { clock } = invocation;
  if (options.jwks !== undefined) {
    const trusted = parseJwks(readText(invocation, options.jwks));
    if (trusted === undefined)
      throw new CommandRefused(
        `Cannot verify ${file}: ${options.jwks} is not a JWK set; \`claviger licenses public-keys\` prints one`,
      );
    return show(invocation, checkLicense(jws, { trusted, now: clock.now() }), { file, options });
  }
  const config = readSettings(invocation, options);
  const checked = checkLicense(jws, {
    trusted: await findTrustedKeys(invocation, config),
    audience: config.brand.name,
    now: clock.now(),
  });
  show(invocation, checked, { file, options });
}

/** Returns the public keys of the installation, without the retired ones. Its refusals also name `--jwks`. */
async function findTrustedKeys(invocation: Invocation, config: Config): Promise<string[]> {
  let trusted: string[] = [];
  try {
    await withDatabase(invocation, { config }, async ({ database }) => {
      trusted = (await listSigningKeys(database)).map(({ publicKey }) => publicKey);
    });
  } catch (error) {
    if (!(error instanceof CommandRefused)) throw error;
    throw new CommandRefused(`${error.message}; or give the public keys with --jwks`);
  }
  return trusted;
}

const NOT_CHECKED = "not checked: revocation since then";

function show(
  invocation: Invocation,
  checked: ReturnType<typeof checkLicense>,
  { file, options }: { readonly file: string; readonly options: VerifyOptions },
): void {
  if (!checked.ok) throw new CommandRefused(`Cannot verify ${file}: ${checked.error}`);
  const { claims, kid, why } = checked;
  if (options.json) {
    const valid = { valid: why === undefined, ...(why !== undefined && { why }) };
    printJson(invocation, { ...valid, not_checked: "revocation since then", kid, claims });
  } else {
    printFields(invocation, {
      ...toFields(claims),
      kid,
      valid: why === undefined ? `yes; ${NOT_CHECKED}` : `no: ${why}`,
    });
  }
  if (why !== undefined) throw new CommandRefused(`The license in ${file} is not valid: ${why}`);
}

const TIMES: ReadonlySet<string> = new Set(["iat", "nbf", "exp", "refresh_after"]);

/** Returns the claims for people: times as timestamps, lists and objects as JSON. */
function toFields(claims: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const entries = Object.entries(claims).map(([name, value]) => {
    if (TIMES.has(name) && isTime(value)) return [name, toTimestamp(new Date(value * 1_000))];
    return [name, typeof value === "object" ? JSON.stringify(value) : value];
  });
  return Object.fromEntries(entries);
}

async function showOutstanding(
  invocation: Invocation,
  { key, limit, ...options }: OutstandingOptions,
): Promise<void> {
  await withDatabase(invocation, options, async ({ database, now }) => {
    const found = await listOutstanding(database, { now, keyUuid: key, limit: limit + 1 });
    const rows = found.slice(0, limit);
    if (options.json) {
      printJson(
        invocation,
        rows.map((row) => ({
          key_id: row.keyId,
          email: row.email,
          kind: row.kind,
          jti: row.jti,
          kid: row.kid,
          signed_at: toTimestamp(row.signedAt),
          expires_at: toTimestamp(row.expiresAt),
          count: row.count,
        })),
      );
    } else {
      printTable(
        invocation,
        rows.map(({ keyId, email, kind, kid, count, expiresAt }) => ({
          key: keyId,
          email,
          kind,
          count,
          "signed by": `${kid.slice(0, 8)}…`,
          "expires at": expiresAt,
        })),
      );
    }
    if (found.length > limit) printNote(invocation, `There are more rows: raise --limit above ${limit}`);
  });
}

function readText({ workingFolder }: Invocation, file: string): string {
  try {
    return readNamedFile(resolve(workingFolder, file), LICENSE_FILE_LIMIT_BYTES);
  } catch (error) {
    throw new CommandRefused(`Cannot read ${file}: ${renderFileFailure(error)}`);
  }
}
