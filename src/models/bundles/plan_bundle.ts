/** What will be in a bundle besides its license. Everything that can be refused without the license is refused here. */
import { createHash } from "node:crypto";
import { openRegularFile, readChunks } from "../../base/read_regular_file.ts";
import { type Reason, type Refusal, refuse } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import type { ParsingRule } from "../../base/rule.ts";
import { FILE_REASONS, reasonOf } from "../../base/system_error.ts";
import { isTarName, isTarPath, TAR_FILE_LIMIT_BYTES, TAR_PATH_BYTES } from "../../base/ustar.ts";
import type { Database } from "../../database/mod.ts";
import { refuseUnknownKey } from "../../licensing/mod.ts";
import { type BundledFile, MOST_BUNDLED_FILES } from "../../licensing/signed_licenses/mod.ts";
import { BucketFailure } from "../bucket/mod.ts";
import {
  explainMissing,
  findCopy,
  type LoadableModel,
  listLoadable,
  MODEL_RULES,
  type ModelsPlace,
  type StoredFile,
} from "../mod.ts";

/** A file that an operator adds. */
export interface AddedFile {
  /** Its name in the bundle. */
  readonly name: string;
  /** Where it is on this host. */
  readonly path: string;
}

/** A file of a bundle, and its bytes. */
export interface BundleSource {
  readonly file: BundledFile;
  /** A chunk is valid until the next one is read. */
  read(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** The order of the files in a bundle. */
export function byPath({ file: one }: BundleSource, { file: other }: BundleSource): number {
  return one.path < other.path ? -1 : 1;
}

export interface BundlePlan {
  /** The models and the added files, in the order of the bundle. */
  readonly sources: readonly BundleSource[];
  /** The models of the license whose files are at another address, so that they are not in the bundle. */
  readonly elsewhere: readonly string[];
}

interface PlanOptions {
  readonly place: ModelsPlace;
  readonly keyUuid: string;
  /** The names of the models; by default all that the license may load and that are hosted here. */
  readonly models?: readonly string[] | undefined;
  readonly files?: readonly AddedFile[];
  readonly now: Date;
  /** Called while the added files are read; if it throws, the work ends. */
  readonly onBytes?: (bytes: number) => void;
}

/** What the refusals call the action. */
const MAKE = "make bundle";
/** With its license. */
export const MOST_SOURCES = MOST_BUNDLED_FILES - 1;
/** The rule of a name in the list of models, and how many it may have. */
export const MODEL_NAME = MODEL_RULES.name;
export const MOST_MODELS_NAMED = MOST_SOURCES;
/** The rule of such a list as one text. */
export const MODEL_NAMES: ParsingRule<readonly string[]> = {
  expects: `names of models separated by commas, at most ${MOST_MODELS_NAMED}, or none`,
  parse(text) {
    const names = text.trim() === "none" ? [] : text.split(",").map((name) => name.trim());
    return names.length <= MOST_MODELS_NAMED && names.every((name) => MODEL_NAME.parse(name) !== undefined)
      ? names
      : undefined;
  },
};

/**
 * Finds the models of a bundle and reads the files that are added. Refuses an unknown key, a model that is unknown or that its
 * license may not load, a file that is missing or has another size than the registry says, and what a bundle cannot hold.
 */
export async function planBundle(
  database: Pick<Database, "read">,
  { place, keyUuid, models, files = [], now, onBytes = () => {} }: PlanOptions,
): Promise<BundlePlan | Refusal> {
  const options = { keyUuid, names: models, limit: MOST_BUNDLED_FILES, now };
  const loadable = await listLoadable(database, options);
  if (loadable === undefined) return refuseUnknownKey(MAKE, keyUuid);
  const missing = models?.find((name) => loadable.every((model) => model.name !== name));
  if (missing !== undefined)
    return refuseModel(await explainMissing(database, { keyUuid, name: missing, now }));
  const elsewhere = loadable.filter(({ file }) => file === null).map(({ name }) => name);
  if (models !== undefined && elsewhere.length > 0)
    return refuseModel({ why: `the file of ${elsewhere[0]} is not hosted here` });
  try {
    const sources: BundleSource[] = [];
    for (const { file, ...model } of loadable)
      if (file !== null) sources.push(await toSource(place, { ...model, file }));
    for (const file of files) sources.push(await readAdded(file, onBytes));
    sources.sort(byPath);
    const twice = findTwice(sources.map(({ file }) => file.path));
    if (twice !== undefined) return refuseBundle(`two of its files would have the name ${twice}`);
    if (sources.length > MOST_SOURCES || loadable.length > MOST_SOURCES)
      return refuseBundle(
        `it would have more than ${counted(MOST_SOURCES, "file")} beside its license; name the models`,
      );
    return { sources, elsewhere };
  } catch (error) {
    if (error instanceof CannotHold) return refuseBundle(error.message);
    return refuseBucket(error);
  }
}

/** Refuses what does not fit into a bundle as it is now. */
export function refuseBundle(why: string): Refusal {
  return refuse("CONFLICT", `Cannot ${MAKE}: ${why}`);
}

/** Returns the refusal for a fault of the bucket; throws any other fault. */
export function refuseBucket(error: unknown): Refusal {
  if (error instanceof BucketFailure) return refuseNow(error.message);
  throw error;
}

/** Refuses for a cause that can pass by itself. */
export function refuseNow(why: string): Refusal {
  return refuse("SERVICE_UNAVAILABLE", `Cannot ${MAKE}: ${why}`);
}

/** Finds two names that are one name on a system that makes no difference between upper and lower case. */
function findTwice(paths: readonly string[]): string | undefined {
  const known = new Map<string, string>();
  for (const path of paths) {
    const other = known.get(path.toLowerCase());
    if (other !== undefined)
      return other === path ? path : `${path} where upper and lower case are the same: the other is ${other}`;
    known.set(path.toLowerCase(), path);
  }
  return undefined;
}

function refuseModel({ why, remedy }: Reason): Refusal {
  const fields = [{ field: "models", error: why }];
  return refuse("INVALID_REQUEST", `Cannot ${MAKE}: ${why}`, { fields, remedy });
}

/** Thrown for a file that the bundle cannot have. */
class CannotHold extends Error {}

async function toSource(
  place: ModelsPlace,
  { file, ...model }: LoadableModel & { readonly file: StoredFile },
): Promise<BundleSource> {
  const { name, version } = model;
  const [ending = ""] = /\.[A-Za-z0-9]{1,16}$/.exec(model.fileName ?? "") ?? [];
  const path = `models/${name}-${version}${ending}`;
  checkEntry(path, file.sizeBytes);
  const copy = await findCopy(place, file);
  if (typeof copy === "string")
    throw new CannotHold(
      `the file of ${name} ${version} is ${copy} on this host; see \`claviger models verify\``,
    );
  const { sha256, sizeBytes: size } = file;
  return { file: { path, size, sha256, kind: "model", name, version }, read: () => copy.read() };
}

async function readAdded({ name, path }: AddedFile, onBytes: (bytes: number) => void): Promise<BundleSource> {
  if (!isTarName(name))
    throw new CannotHold(
      `the name of ${path} must be letters, digits, dots, dashes, plus and underscores, and begin with none of .+-`,
    );
  const inBundle = `files/${name}`;
  const open = () => {
    try {
      return openRegularFile(path);
    } catch (error) {
      throw new CannotHold(`${path} cannot be read: ${reasonOf(error, FILE_REASONS)}`);
    }
  };
  const hash = createHash("sha256");
  let size = 0;
  using file = open();
  checkEntry(inBundle, file.stat.size);
  for await (const chunk of readChunks(file.fd)) {
    hash.update(chunk);
    size += chunk.length;
    checkEntry(inBundle, size);
    onBytes(chunk.length);
  }
  async function* read() {
    using again = open();
    yield* readChunks(again.fd);
  }
  return { file: { path: inBundle, size, sha256: hash.digest("hex"), kind: "file" }, read };
}

function checkEntry(path: string, sizeBytes: number): void {
  if (!isTarPath(path)) throw new CannotHold(`the name ${path} has more than ${TAR_PATH_BYTES} characters`);
  if (sizeBytes > TAR_FILE_LIMIT_BYTES) throw new CannotHold(`${path} has 8 GiB or more`);
}
