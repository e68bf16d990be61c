/** `claviger bundle …`: everything that a customer without a network needs, in one signed tar file for each machine. */
import { lstatSync, statfsSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { toTimestamp } from "../../base/calendar.ts";
import { idRule } from "../../base/ids.ts";
import { openRegularFile, readChunks, readNamedFile } from "../../base/read_regular_file.ts";
import { isRefusal } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import type { KeySummary } from "../../licensing/keys/mod.ts";
import {
  createLicenseSigner,
  isTime,
  renderExport,
  SIGNED_DAYS,
  SIGNED_FINGERPRINT,
  USUAL_EXPORT_DAYS,
  withoutReportKey,
} from "../../licensing/signed_licenses/mod.ts";
import {
  BundleBroken,
  type BundlePlan,
  compareModels,
  MODEL_NAME,
  MOST_MODELS_NAMED,
  MOST_SOURCES,
  nameBundle,
  planBundle,
  type ReadBundle,
  readBundle,
  type SealedBundle,
  sealBundle,
} from "../../models/bundles/mod.ts";
import { toSize } from "../backup_report.ts";
import { command, type DatabaseCall, databaseCommand, group } from "../command.ts";
import { announcePlaces, announceTerm, noteExported } from "../export_notes.ts";
import { renderFileFailure } from "../failures.ts";
import { demandKey } from "../find_named.ts";
import { CONFIRMATION, JSON_OPTIONS, PATH, REASON } from "../options.ts";
import { flag, option, repeated, required } from "../parameter.ts";
import { renderRefusal } from "../remedies.ts";
import { CommandRefused, DoneInPart, orRefuse, WrongUsage } from "../run.ts";
import { findTrust, TRUST_OPTIONS } from "../trusted_keys.ts";
import { demandWritable, writeNewFile } from "../write_new_file.ts";
import { openSigningSecrets } from "./signing_keys_commands.ts";

/** The most machines in one step. */
const MOST_MACHINES = 1_000;
const FINGERPRINTS_LIMIT_BYTES = 256 * 1024;

const MAKE_OPTIONS = {
  key: required("the key's id", idRule("key"), { as: "id" }),
  fingerprint: option(
    "the fingerprint of the only machine that may use the license; repeat it for more machines, each of which gets a file",
    repeated(SIGNED_FINGERPRINT, MOST_MACHINES),
    { as: "text" },
  ),
  fingerprints: option("a file with a fingerprint on each line", PATH, {
    as: "file",
    conflicts: ["fingerprint"],
  }),
  days: option(
    `how many days the license is valid; by default ${USUAL_EXPORT_DAYS}, or the offline days of the license if these are fewer`,
    SIGNED_DAYS,
    { as: "n" },
  ),
  model: option(
    "the name of a model; repeat it for more models; by default all that the license may load and that are hosted here",
    repeated(MODEL_NAME, MOST_MODELS_NAMED),
    { as: "name" },
  ),
  withoutModels: flag("put no model into the bundle", { conflicts: ["model"] }),
  add: option("a file to add, such as a package; repeat it for more files", repeated(PATH, MOST_SOURCES), {
    as: "file",
  }),
  to: required(
    "the file to write, such as customer.tar; or a folder, in which each file gets the name CUSTOMER-MACHINE-DAY.tar",
    PATH,
    { as: "path" },
  ),
  yes: CONFIRMATION.yes,
  ...REASON,
};

const make = databaseCommand({
  name: "make",
  description:
    "sign the license of a key, and write it with its models and added files into one tar file for each machine",
  options: MAKE_OPTIONS,
  ifStopped: "bundles that were written stay, and so do the places of machines whose licenses were signed",
  async run({ key: keyUuid, days, model, withoutModels, add = [], to, ...options }, call) {
    const { invocation, config, database, actor, now, print, confirm, stopIfInterrupted } = call;
    const machines = readMachines(call, options);
    const key = await demandKey(call, keyUuid, "make bundle");
    const targets = findTargets(call, { to, key, machines });
    const plan = orRefuse(
      await planBundle(database, {
        place: config,
        keyUuid,
        models: withoutModels ? [] : model,
        files: add.map((file) => ({
          name: basename(file),
          path: resolve(invocation.workingFolder, file),
        })),
        now,
        onBytes: stopIfInterrupted,
      }),
    );
    demandRoom(plan, targets);
    await orBroken(compareModels(plan, { onBytes: stopIfInterrupted }));
    noteElsewhere(call, plan);
    const startsTerm = announceTerm(print, key, now);
    const takesPlaces = announcePlaces(call, key, { days, machines });
    if (startsTerm || takesPlaces) await confirm(`Sign ${counted(targets.length, "license")}?`);
    const secrets = await openSigningSecrets(call);
    const signer = createLicenseSigner({ ...config, database, secrets });
    const made: MadeBundle[] = [];
    const refused: { readonly fingerprint: string | null; readonly error: string }[] = [];
    for (const { fingerprint, path, shown } of targets) {
      const sealed = await sealBundle(signer, plan, { keyUuid, days, fingerprint, actor, now });
      if (isRefusal(sealed)) {
        refused.push({ fingerprint: fingerprint ?? null, error: renderRefusal(sealed) });
        continue;
      }
      await write(call, path, sealed);
      // At once: a later one may fail.
      print.line(`Wrote ${shown} (${toSize(sealed.sizeBytes)}): a license, ${describeFiles(plan)}`);
      made.push({ fingerprint, path, sealed });
    }
    printMade(call, { made, refused, plan });
    if (refused.length === 0) return;
    const why = [...new Set(refused.map(({ error }) => error))].join("; ");
    if (made.length === 0) throw new CommandRefused(why);
    const names = refused.map(({ fingerprint }) => fingerprint).join(", ");
    throw new DoneInPart(`No bundle for ${names}: ${why}`);
  },
});

interface MadeBundle {
  readonly fingerprint: string | undefined;
  readonly path: string;
  readonly sealed: SealedBundle;
}

/** Returns the fingerprints of the machines; none for a license that is for no machine alone. */
function readMachines(
  { invocation }: DatabaseCall,
  {
    fingerprint = [],
    fingerprints: file,
  }: { readonly fingerprint?: readonly string[]; readonly fingerprints?: string },
): readonly string[] {
  const machines =
    file === undefined ? fingerprint : readLines(resolve(invocation.workingFolder, file), file);
  const twice = machines.find((each, index) => machines.indexOf(each) !== index);
  if (twice !== undefined) throw new WrongUsage(`Cannot make bundle: ${twice} is given twice`);
  return machines;
}

function readLines(path: string, file: string): string[] {
  let text: string;
  try {
    text = readNamedFile(path, FINGERPRINTS_LIMIT_BYTES);
  } catch (error) {
    throw new CommandRefused(`Cannot read ${file}: ${renderFileFailure(error)}`);
  }
  const lines = text
    .split("\n")
    .map((line, index) => ({ text: line.replace(/\r$/, ""), number: index + 1 }))
    .filter((line) => line.text !== "");
  const wrong = lines.find((line) => SIGNED_FINGERPRINT.parse(line.text) === undefined);
  if (wrong !== undefined)
    throw new WrongUsage(`Cannot read ${file}: line ${wrong.number} must be ${SIGNED_FINGERPRINT.expects}`);
  if (lines.length === 0 || lines.length > MOST_MACHINES)
    throw new WrongUsage(`Cannot read ${file}: it must have 1 to ${MOST_MACHINES} fingerprints`);
  return lines.map((line) => line.text);
}

/** Returns the file of each machine. Refuses one that exists, before anything is signed. */
function findTargets(
  { invocation, now }: DatabaseCall,
  {
    to,
    key,
    machines,
  }: { readonly to: string; readonly key: KeySummary; readonly machines: readonly string[] },
) {
  const toPath = (shown: string) => resolve(invocation.workingFolder, shown);
  const isFolder = statSync(toPath(to), { throwIfNoEntry: false })?.isDirectory() ?? false;
  if (!isFolder && machines.length > 1)
    throw new WrongUsage(`Cannot make bundles: ${to} is no folder, and each machine gets a file in one`);
  const all = machines.length === 0 ? [undefined] : machines;
  const targets = all.map((fingerprint) => {
    const shown = isFolder ? join(to, nameBundle({ ...key, fingerprint, now })) : to;
    return { fingerprint, shown, path: toPath(shown) };
  });
  const taken = targets.find((each) => lstatSync(each.path, { throwIfNoEntry: false }) !== undefined);
  if (taken !== undefined)
    throw new CommandRefused(
      `Cannot make bundle: ${taken.shown} exists already; move it, or choose another name`,
    );
  // Some file systems make no difference between upper and lower case.
  const paths = targets.map(({ path }) => path.toLowerCase());
  const twice = targets.find((_, index) => paths.indexOf(paths[index] ?? "") !== index);
  if (twice !== undefined)
    throw new CommandRefused(
      `Cannot make bundle: two machines would get the file ${twice.shown}; make the bundle of one of them alone`,
    );
  return targets;
}

/** Refuses a folder that this user cannot write, or that has no room, before anything is signed. */
function demandRoom({ sources }: BundlePlan, targets: readonly { readonly path: string }[]): void {
  const [{ path } = { path: "" }] = targets;
  const folder = dirname(path);
  demandWritable(folder);
  const { bavail, bsize } = statfsSync(folder);
  const needed = targets.length * sources.reduce((sum, { file }) => sum + file.size, 0);
  if (needed > bavail * bsize)
    throw new CommandRefused(
      `Cannot write into ${folder}: ${toSize(needed)} are needed, and ${toSize(bavail * bsize)} are free`,
    );
}

function noteElsewhere({ print }: DatabaseCall, { elsewhere }: BundlePlan): void {
  if (elsewhere.length > 0)
    print.note(`Not in the bundle, because their files are not hosted here: ${elsewhere.join(", ")}`);
}

async function write({ stopIfInterrupted }: DatabaseCall, path: string, sealed: SealedBundle): Promise<void> {
  async function* chunks() {
    for await (const chunk of sealed.read()) {
      stopIfInterrupted();
      yield chunk;
    }
  }
  try {
    await orBroken(writeNewFile(path, chunks()));
  } catch (error) {
    const noted = "its license is signed and noted all the same";
    if (error instanceof CommandRefused) throw new CommandRefused(`${error.message}; ${noted}`);
    throw new CommandRefused(`Cannot write ${path}: ${renderFileFailure(error)}; ${noted}`);
  }
}

/** Refuses if the bytes of a file are not those of the plan. */
async function orBroken<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof BundleBroken) throw new CommandRefused(`Cannot make bundle: ${error.message}`);
    throw error;
  }
}

function describeFiles({ sources }: BundlePlan): string {
  const models = sources.filter(({ file }) => file.kind === "model").length;
  return `${counted(models, "model")} and ${counted(sources.length - models, "added file")}`;
}

function printMade(
  { print }: DatabaseCall,
  {
    made,
    refused,
    plan,
  }: { readonly made: readonly MadeBundle[]; readonly refused: readonly object[]; readonly plan: BundlePlan },
): void {
  if (print.isJson) {
    const bundles = made.map(({ fingerprint = null, path, sealed }) => {
      const { license: _, file: __, ...exported } = renderExport(sealed.signed);
      return { file: path, bytes: sealed.sizeBytes, fingerprint, ...exported };
    });
    const files = plan.sources.map(({ file }) => file);
    print.document({ bundles, refused, files, elsewhere: plan.elsewhere });
  } else {
    // All end at the same time, and only the first can start the term. What was said of all places before is not repeated of one.
    for (const { sealed } of made.slice(0, 1)) {
      const exported = renderExport(sealed.signed);
      noteExported(print, made.length > 1 ? { ...exported, warning: null } : exported);
    }
  }
}

const verify = command({
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
  const { exp } = license?.claims ?? {};
  return {
    license: manifest.license_id,
    key: manifest.key_id,
    machine: manifest.fingerprint,
    made_at: toTimestamp(new Date(manifest.iat * 1_000)),
    license_ends_at: isTime(exp) ? toTimestamp(new Date(exp * 1_000)) : undefined,
    for: manifest.aud,
    kid,
    valid: why === undefined ? `yes; not checked: ${NOT_CHECKED}` : `no: ${why}`,
  };
}

export const bundle = group("bundle", "make and verify bundles for customers without a network", [
  make,
  verify,
]);
