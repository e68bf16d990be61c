/** `claviger licenses public-keys` and `rotate-signing-key`: the keys that sign licenses. */
import { type Command, InvalidArgumentError } from "commander";
import { openSession } from "../../database/mod.ts";
import type { Secrets } from "../../secrets/mod.ts";
import {
  listSigningKeys,
  prepareSigningKeys,
  retireSigningKey,
  rotateSigningKey,
  toJwk,
  toPem,
} from "../../signed_licenses/mod.ts";
import type { Invocation } from "../invocation.ts";
import { type JsonOptions, withJsonOptions } from "../options.ts";
import { counted, printJson, printLine, printNote } from "../print.ts";
import { type CommandContext, CommandRefused, openProvenSecrets, orRefuse, withDatabase } from "../run.ts";

/** Adds the commands to the group `licenses`. */
export function addSigningKeysCommands(licenses: Command, invocation: Invocation): void {
  withJsonOptions(licenses.command("public-keys"))
    .description("print the public keys that verify licenses, for SDKs that pin them: a JWK set")
    .option("--pem", "print the keys as PEM, for OpenSSL")
    .action((options: PublicKeysOptions) => printPublicKeys(invocation, options));

  withJsonOptions(licenses.command("rotate-signing-key"))
    .description("sign with the successor of the signing key from now on, or retire a key")
    .option(
      "--retire <kid>",
      "stop publishing this key; refused while a license that it signed is valid",
      kidOption,
    )
    .option("--now", "with --retire: retire a leaked key at once, whatever it signed")
    .action((options: RotateOptions) => rotate(invocation, options));
}

interface PublicKeysOptions extends JsonOptions {
  readonly pem?: boolean;
}

interface RotateOptions extends JsonOptions {
  readonly retire?: string;
  readonly now?: boolean;
}

/** Opens the root secret, and makes the signing keys if the service was never started. */
export async function openSigningSecrets(context: CommandContext): Promise<Secrets> {
  const secrets = await openProvenSecrets(context);
  await prepareSigningKeys(context.database, { ...context, secrets });
  return secrets;
}

async function printPublicKeys(invocation: Invocation, options: PublicKeysOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ database }) => {
    const keys = await listSigningKeys(database);
    if (keys.length === 0) throw new CommandRefused("There are no signing keys yet: start the service once");
    if (!options.pem) return printJson(invocation, { keys: keys.map(({ publicKey }) => toJwk(publicKey)) });
    for (const { kid, state, publicKey } of keys) invocation.out(`# ${kid} (${state})\n${toPem(publicKey)}`);
  });
}

async function rotate(invocation: Invocation, options: RotateOptions): Promise<void> {
  const { retire: kid, now: isLeaked = false } = options;
  if (isLeaked && kid === undefined)
    throw new CommandRefused("--now needs --retire KID: it retires a leaked key");
  await withDatabase(invocation, options, async (context) => {
    const { database, address, actor, now } = context;
    const change = { secrets: await openSigningSecrets(context), actor, now };
    if (kid === undefined) {
      const rotated = orRefuse(await rotateSigningKey(database, change));
      const { kid: signing, successor, previous } = rotated;
      if (options.json) return printJson(invocation, { signing_key: signing, successor, previous });
      printLine(invocation, `The signing key is now ${signing}`);
      printLine(invocation, `Its successor is ${successor}`);
      printLine(invocation, `The old key ${previous} is published until you retire it`);
      printNote(invocation, "Put the new list of `claviger licenses public-keys` into your next SDK");
      return;
    }
    const session = openSession(address, { statementTimeoutMs: 30_000 });
    try {
      const retired = orRefuse(await retireSigningKey(session, kid, { ...change, isLeaked }));
      const { stillValid, rotation } = retired;
      if (options.json) {
        printJson(invocation, {
          retired: kid,
          still_valid: stillValid,
          signing_key: rotation?.kid ?? null,
        });
      } else {
        if (rotation !== undefined) printLine(invocation, `The signing key is now ${rotation.kid}`);
        printLine(invocation, `Retired ${kid}: it is not published any more`);
      }
      if (!isLeaked) return;
      printNote(
        invocation,
        `Licenses of ${counted(stillValid, "key")} that it signed have not expired. Only clients that fetch the public keys ` +
          "notice the retirement; clients with pinned keys accept forgeries until their SDK is updated",
      );
    } finally {
      await session.close();
    }
  });
}

/** Reads the id of a signing key. */
function kidOption(text: string): string {
  if (/^[\w-]{43}$/.test(text)) return text;
  throw new InvalidArgumentError(
    "It must be the `kid` of a key: 43 characters, as `licenses public-keys` shows it.",
  );
}
