/** `claviger licenses …`: one license with its keys, and signed licenses. `signing_keys_commands.ts` has their keys. */
import { toTimestamp } from "../../base/calendar.ts";
import { idRule } from "../../base/ids.ts";
import { counted } from "../../base/render_count.ts";
import { listMachines, renderMachine } from "../../licensing/machines/mod.ts";
import {
  createLicenseChanges,
  findLicense,
  type Move,
  moveLicense,
  refuseUnknownLicense,
  renderLicense,
  renderMove,
  renderOwnTexts,
  TEXT_RULES,
} from "../../licensing/mod.ts";
import {
  checkLicense,
  EXPORTED_FINGERPRINT,
  isTime,
  listOutstanding,
  NONCE,
  type OutstandingLicense,
  parseLicenseFile,
  withoutReportKey,
} from "../../licensing/signed_licenses/mod.ts";
import { type CommandCall, command, databaseCommand, group } from "../command.ts";
import { EXPORT_DAYS, exportLicense } from "../export_license.ts";
import { noteExported } from "../export_notes.ts";
import { limitOption, printRows } from "../list_options.ts";
import { CONFIRMATION, JSON_OPTIONS, KEY_ID, PATH, REASON } from "../options.ts";
import { flag, option, required } from "../parameter.ts";
import { CommandRefused, orRefuse } from "../run.ts";
import { findTrust, readLicenseText, TRUST_OPTIONS } from "../trusted_keys.ts";
import { withoutUsual } from "../without_usual.ts";
import { signingKeysCommands } from "./signing_keys_commands.ts";

/** How many machines and signed licenses of a license are shown. */
const MOST_SHOWN = 100;

const show = databaseCommand({
  name: "show",
  description: "show one license: what was bought, and the keys, machines and signed licenses that use it",
  arguments: { id: required("the license's id", idRule("lic")) },
  async run({ id: uuid }, { database, now, print }) {
    const license = orRefuse(
      (await findLicense(database, uuid, { now })) ?? refuseUnknownLicense("show license", uuid),
    );
    const { keys, ...shown } = renderLicense(license);
    const [machines, files] = await Promise.all([
      listMachines(database, { filter: { licenseUuid: uuid, limit: MOST_SHOWN, newestFirst: true } }),
      listOutstanding(database, { now, licenseUuid: uuid, limit: MOST_SHOWN }),
    ]);
    if (print.isJson)
      return print.document({
        ...shown,
        keys,
        machines: machines.map(renderMachine),
        signed_licenses: files.map(renderOutstanding),
      });
    print.fields({
      ...withoutUsual(shown),
      ...renderOwnTexts(license),
      keys: keys.map(({ id, mode, state }) => `${id} (${mode}, ${state})`).join(", "),
      machines: machines.map(({ id, state }) => `${id} (${state})`).join(", "),
      signed_licenses: files
        .map(({ kind, expiresAt }) => `${kind}, until ${toTimestamp(expiresAt)}`)
        .join(", "),
    });
    if (machines.length === MOST_SHOWN || files.length === MOST_SHOWN)
      print.note(
        `At most ${MOST_SHOWN} machines and signed licenses are shown: \`claviger machines list\` and ` +
          "`claviger licenses outstanding` list all",
      );
  },
});

const move = databaseCommand({
  name: "move",
  description:
    "move a license to another account, with its keys, machines and use; custom models stay with their account",
  arguments: { id: required("the license's id", idRule("lic")) },
  options: {
    to: required("the e-mail of the other account", TEXT_RULES.email),
    newAccount: flag("make the account if no account has the e-mail"),
    ...CONFIRMATION,
    ...REASON,
  },
  async run({ id: uuid, to: email, newAccount: mayBeNew, dryRun }, { database, actor, now, print, confirm }) {
    const changes = createLicenseChanges(database);
    const options = { to: { email, mayBeNew }, actor, now };
    const foreseen = orRefuse(await moveLicense(changes, uuid, { ...options, isDryRun: true }));
    const shown = renderMove(uuid, foreseen);
    if (dryRun) return print.line(`Would move ${describeMove(foreseen)}`, { ...shown, moved: false });
    await confirm(`Move ${describeMove(foreseen)}?`);
    const moved = orRefuse(await moveLicense(changes, uuid, options));
    print.line(`Moved ${describeMove(moved)}`, { ...renderMove(uuid, moved), moved: true });
  },
});

/** Says what a move takes along, and what it leaves. */
function describeMove({ from, to, keys, machines, losesModels, getsModels }: Move): string {
  const account = `${to.isNew ? "the new account " : ""}${to.email}`;
  const models = [
    losesModels.length > 0 && `it cannot load ${losesModels.join(", ")} there`,
    getsModels.length > 0 && `it can load ${getsModels.join(", ")} there`,
  ].filter((text) => text !== false);
  const along = `${counted(keys, "key")} and ${counted(machines, "machine")}`;
  return [`the license from ${from.email} to ${account}, with ${along}`, ...models].join("; ");
}

const exporting = databaseCommand({
  name: "export",
  description: "sign the license of a key as a file, for a customer without a network",
  arguments: KEY_ID,
  options: {
    days: EXPORT_DAYS,
    fingerprint: option(
      "the fingerprint of the only machine that may use the license",
      EXPORTED_FINGERPRINT,
      {
        as: "text",
      },
    ),
    nonce: option("a text to repeat in the license", NONCE, { as: "text" }),
    yes: CONFIRMATION.yes,
    ...REASON,
  },
  async run({ id: keyUuid, days, fingerprint, nonce, json }, call) {
    const exported = await exportLicense(call, { keyUuid, days, fingerprint, nonce });
    if (json) return call.print.document(exported);
    call.invocation.out(exported.file);
    noteExported(call.print, exported);
  },
});

const verify = command({
  name: "verify",
  description: "show what a license says, and whether it is valid now",
  arguments: { file: required("a license file, or a file with the JWS alone", PATH) },
  options: {
    ...JSON_OPTIONS,
    ...TRUST_OPTIONS,
  },
  async run({ file, jwks, ...place }, call) {
    const { invocation } = call;
    const jws = parseLicenseFile(readLicenseText(invocation, file));
    if (jws === undefined) throw new CommandRefused(`Cannot verify ${file}: it holds no license`);
    const trust = await findTrust(invocation, { file, jwks, place });
    const checked = checkLicense(jws, { ...trust, now: invocation.clock.now() });
    showChecked(call, checked, { file, ...place });
  },
});

const outstanding = databaseCommand({
  name: "outstanding",
  description: "list the licenses that were signed and are still valid, the latest expiry first",
  options: {
    key: option("only licenses of this key", idRule("key"), { as: "id" }),
    ...limitOption(100_000),
  },
  async run({ key, limit }, { database, now, print }) {
    const found = await listOutstanding(database, {
      now,
      keyUuids: key === undefined ? undefined : [key],
      limit: limit + 1,
    });
    await printRows(print, [found], {
      limit,
      toCells: ({ keyId, email, kind, kid, count, expiresAt }) => ({
        key: keyId,
        email,
        kind,
        count,
        "signed by": `${kid.slice(0, 8)}…`,
        "expires at": expiresAt,
      }),
      toJson: renderOutstanding,
    });
  },
});

function renderOutstanding(license: OutstandingLicense) {
  const { keyId, email, kind, jti, kid, signedAt, expiresAt, count } = license;
  return {
    key_id: keyId,
    email,
    kind,
    jti,
    kid,
    signed_at: toTimestamp(signedAt),
    expires_at: toTimestamp(expiresAt),
    count,
  };
}

export const licenses = group(
  "licenses",
  "show and move a license, sign and verify licenses for use without a network, and manage the keys that sign them",
  [show, move, exporting, verify, outstanding, ...signingKeysCommands],
);

const NOT_CHECKED = "not checked: revocation since then";

function showChecked(
  { print }: CommandCall,
  checked: ReturnType<typeof checkLicense>,
  { file, json }: { readonly file: string; readonly json: boolean },
): void {
  if (!checked.ok) throw new CommandRefused(`Cannot verify ${file}: ${checked.error}`);
  const { kid, why } = checked;
  const claims = withoutReportKey(checked.claims);
  if (json) {
    const valid = { valid: why === undefined, ...(why !== undefined && { why }) };
    print.document({ ...valid, not_checked: "revocation since then", kid, claims });
  } else {
    const valid = why === undefined ? `yes; ${NOT_CHECKED}` : `no: ${why}`;
    print.fields({ ...toFields(claims), kid, valid });
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
