/** `claviger licenses public-keys` and `rotate-signing-key`: the keys that sign licenses. */

import { counted } from "../../base/render_count.ts";
import { matching } from "../../base/rule.ts";
import type { Secrets } from "../../base/secrets/mod.ts";
import { openSession } from "../../database/mod.ts";
import {
  listSigningKeys,
  prepareSigningKeys,
  retireSigningKey,
  rotateSigningKey,
  toJwk,
  toPem,
} from "../../licensing/signed_licenses/mod.ts";
import { databaseCommand } from "../command.ts";
import { flag, option } from "../parameter.ts";
import { type CommandContext, CommandRefused, openProvenSecrets, orRefuse } from "../run.ts";

/** Opens the root secret, and makes the signing keys if the service was never started. */
export async function openSigningSecrets(context: CommandContext): Promise<Secrets> {
  const secrets = await openProvenSecrets(context);
  await prepareSigningKeys(context.database, { ...context, secrets });
  return secrets;
}

/** The id of a signing key. */
const KID = matching(/^[\w-]{43}$/, "the `kid` of a key: 43 characters, as `licenses public-keys` shows it");

const publicKeys = databaseCommand({
  name: "public-keys",
  description: "print the public keys that verify licenses, for SDKs that pin them: a JWK set",
  options: { pem: flag("print the keys as PEM, for OpenSSL") },
  async run({ pem }, { invocation, database, print }) {
    const keys = await listSigningKeys(database);
    if (keys.length === 0) throw new CommandRefused("There are no signing keys yet: start the service once");
    if (!pem) return print.document({ keys: keys.map(({ publicKey }) => toJwk(publicKey)) });
    for (const { kid, state, publicKey } of keys) invocation.out(`# ${kid} (${state})\n${toPem(publicKey)}`);
  },
});

const rotate = databaseCommand({
  name: "rotate-signing-key",
  description: "sign with the successor of the signing key from now on, or retire a key",
  options: {
    retire: option("stop publishing this key; refused while a license that it signed is valid", KID, {
      as: "kid",
    }),
    now: flag("with --retire: retire a leaked key at once, whatever it signed"),
  },
  check: ({ retire, now }) =>
    now && retire === undefined ? "--now needs --retire KID: it retires a leaked key" : undefined,
  async run({ retire: kid, now: isLeaked }, call) {
    const { print, database, address, actor, now } = call;
    const change = { secrets: await openSigningSecrets(call), actor, now };
    if (kid === undefined) {
      const rotated = orRefuse(await rotateSigningKey(database, change));
      const { kid: signing, successor, previous } = rotated;
      const document = { signing_key: signing, successor, previous };
      print.line(`The signing key is now ${signing}`, document);
      print.line(`Its successor is ${successor}`);
      print.line(`The old key ${previous} is published until you retire it`);
      print.note("Put the new list of `claviger licenses public-keys` into your next SDK");
      return;
    }
    await using session = openSession(address, { statementTimeoutMs: 30_000 });
    const retired = orRefuse(await retireSigningKey(session, kid, { ...change, isLeaked }));
    const { stillValid, rotation } = retired;
    if (rotation !== undefined) print.line(`The signing key is now ${rotation.kid}`);
    print.line(`Retired ${kid}: it is not published any more`, {
      retired: kid,
      still_valid: stillValid,
      signing_key: rotation?.kid ?? null,
    });
    if (!isLeaked) return;
    print.warn(
      `Licenses of ${counted(stillValid, "key")} that it signed have not expired. Only clients that fetch the public keys ` +
        "notice the retirement; clients with pinned keys accept forgeries until their SDK is updated",
    );
  },
});

export const signingKeysCommands = [publicKeys, rotate];
