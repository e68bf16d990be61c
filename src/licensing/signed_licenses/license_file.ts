/**
 * The file of a license for a customer without a network: lines for people, then the JWS, in a frame. Only the JWS is
 * signed, so a reader must take nothing from the lines before it.
 */
import { toTimestamp } from "../../base/calendar.ts";
import type { SignedLicense } from "./sign_license.ts";

const BEGIN = "-----BEGIN LICENSE-----";
const END = "-----END LICENSE-----";
const LINE_CHARACTERS = 64;
/** The largest file that is read. */
export const LICENSE_FILE_LIMIT_BYTES = 64 * 1024;

/**
 * Returns an exported license as the JSON that the command and the operators' API show: the compact JWS, and the content
 * of the license file. `warning` is a sentence if the license takes a place for a machine, and null otherwise.
 * `term_ends_at` is the end of a license whose term began with this file, and null otherwise.
 */
export function renderExport(signed: SignedLicense) {
  const { license, claims, kid, startedTerm, placeUntil = new Date(claims.exp * 1_000) } = signed;
  const expiresAt = toTimestamp(new Date(claims.exp * 1_000));
  const warning =
    claims.machine_id &&
    `The machine keeps its place until ${toTimestamp(placeUntil)}, also if it is released: check its fingerprint`;
  return {
    license,
    file: renderLicenseFile(signed),
    kid,
    jti: claims.jti,
    expires_at: expiresAt,
    machine_id: claims.machine_id ?? null,
    warning: warning ?? null,
    term_ends_at: startedTerm === undefined ? null : toTimestamp(startedTerm.expiresAt),
  };
}

/** Renders the file of a license. */
function renderLicenseFile({ license, claims }: SignedLicense): string {
  const lines = license.match(new RegExp(`.{1,${LINE_CHARACTERS}}`, "g")) ?? [];
  const head = {
    License: claims.sub,
    Key: claims.key_id,
    Tier: claims.license_type,
    "Valid until": toTimestamp(new Date(claims.exp * 1_000)),
    Machine: claims.fingerprint,
  };
  const shown = Object.entries(head).filter(([, value]) => value !== undefined);
  return [BEGIN, ...shown.map(([name, value]) => `${name}: ${value}`), "", ...lines, END, ""].join("\n");
}

/** Returns the JWS in a license file, or in a file that holds only the JWS; undefined if there is none. */
export function parseLicenseFile(text: string): string | undefined {
  const begin = text.indexOf(BEGIN);
  // Only the first frame is read, because a hostile file can hold so many that trying each takes seconds.
  const frame = new RegExp(`^${BEGIN}\\r?\\n(?:[^\\r\\n]+\\r?\\n)*\\r?\\n([\\w.\\s-]+?)${END}`);
  const framed = begin === -1 ? text : frame.exec(text.slice(begin))?.[1];
  const jws = framed?.replaceAll(/\s/g, "");
  return jws !== undefined && /^[\w-]+\.[\w-]+\.[\w-]+$/.test(jws) ? jws : undefined;
}
