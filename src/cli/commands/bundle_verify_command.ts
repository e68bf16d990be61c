/** `claviger bundle verify`: what is in a bundle, and whether it is genuine. */
import { resolve } from "node:path";
import { toTimestamp } from "../../base/calendar.ts";
import { openRegularFile, readChunks } from "../../base/read_regular_file.ts";
import { isTime, withoutReportKey } from "../../licensing/signed_licenses/mod.ts";
import { type ReadBundle, readBundle } from "../../models/bundles/mod.ts";
import { command } from "../command.ts";
import { renderFileFailure } from "../failures.ts";
import { JSON_OPTIONS, PATH } from "../options.ts";
import { required } from "../parameter.ts";
import { CommandRefused } from "../run.ts";
import { findTrust, TRUST_OPTIONS } from "../trusted_keys.ts";

export const verify = command({
  name: "verify",
  description: "show what is in a bundle, and whether everything in it is genuine and its license valid now",
  arguments: { file: required("a bundle", PATH) },
  options: { ...JSON_OPTIONS, ...TRUST_OPTIONS },
  async run({ file, jwks, ...place }, { invocation, print }) {
    const open = () => {
      try {
        return openRegularFile(resolve(invocation.workingFolder, file));
      } catch (error) {
        throw new CommandRefused(`Cannot read ${file}: ${renderFileFailure(error)}`);
      }
    };
    using bundle = open();
    const trust = await findTrust(invocation, { file, jwks, place });
    const read = await readBundle(readChunks(bundle.fd), { ...trust, now: invocation.clock.now() });
    if (!read.ok) throw new CommandRefused(`Cannot verify ${file}: ${read.error}`);
    if (place.json) print.document(renderRead(read));
    else {
      print.fields(toFields(read));
      print.table(
        read.files.map(({ isRight, path, size, sha256 }) => ({
          file: path,
          state: isRight ? "good" : "changed",
          bytes: size,
          sha256,
        })),
      );
    }
    if (read.why !== undefined) throw new CommandRefused(`The bundle in ${file} is not good: ${read.why}`);
  },
});

type GoodBundle = Extract<ReadBundle, { readonly ok: true }>;

const NOT_CHECKED = "revocation since then";

function renderRead({ kid, manifest, files, license, why }: GoodBundle) {
  return {
    valid: why === undefined,
    ...(why !== undefined && { why }),
    not_checked: NOT_CHECKED,
    kid,
    manifest: { ...manifest, files: files.map(({ isRight, ...file }) => ({ ...file, good: isRight })) },
    license: license === undefined ? null : withoutReportKey(license.claims),
  };
}

function toFields({ kid, manifest, license, why }: GoodBundle) {
  const { exp, user_id: account } = license?.claims ?? {};
  return {
    account,
    license: manifest.license_id,
    key: manifest.key_id,
    machine: manifest.fingerprint,
    made_at: toTimestamp(new Date(manifest.iat * 1_000)),
    license_ends_at: isTime(exp) ? toTimestamp(new Date(exp * 1_000)) : undefined,
    audience: manifest.aud,
    kid,
    valid: why === undefined ? `yes; not checked: ${NOT_CHECKED}` : `no: ${why}`,
  };
}
