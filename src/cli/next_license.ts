/** The next license of a machine, which is signed after the reports of its use are imported. */
import { toTimestamp } from "../base/calendar.ts";
import { toId } from "../base/ids.ts";
import { isRefusal } from "../base/refusal.ts";
import { type ForeseenLicense, type LicenseSigner, renderExport } from "../licensing/signed_licenses/mod.ts";
import { nothingImported, type UsageReport } from "../usage/mod.ts";
import type { DatabaseCall } from "./command.ts";
import { announcePlaces, announceTerm, noteExported } from "./export_notes.ts";
import { refuseDatabaseFailure, renderFailure } from "./failures.ts";
import { demandKey } from "./find_named.ts";
import { renderRefusal } from "./remedies.ts";
import { CommandRefused } from "./run.ts";
import { demandNewFile, renderWriteFailure, writeNewFile } from "./write_new_file.ts";

/** The license that is to be signed, and its file. */
export interface NextFile {
  readonly path: string;
  readonly fingerprint: string;
  readonly days: number | undefined;
  readonly foreseen: ForeseenLicense;
}

/** Checks what can be checked of the next license and of its file before the import. */
export async function prepareNext(
  [report, ...more]: readonly UsageReport[],
  {
    path,
    signer,
    ...request
  }: Omit<NextFile, "foreseen"> & {
    readonly signer: Pick<LicenseSigner, "foreseeNext">;
    readonly keyUuid: string | undefined;
    readonly now: Date;
  },
): Promise<NextFile | undefined> {
  if (report === undefined) return undefined;
  const { licenseUuid, machine } = report;
  const cannot = (why: string) => new CommandRefused(`${why}; nothing was imported`);
  if (more.some((each) => each.licenseUuid !== licenseUuid || each.machine !== machine))
    throw cannot("Cannot export license: the reports are of several machines");
  try {
    demandNewFile(path, { what: "export license" });
  } catch (error) {
    throw error instanceof CommandRefused ? cannot(error.message) : error;
  }
  const foreseen = await signer.foreseeNext({ ...request, machine: { licenseUuid, hash: machine } });
  if (isRefusal(foreseen)) throw new CommandRefused(renderRefusal(nothingImported(foreseen)));
  return { path, ...request, foreseen };
}

/** Says what will be signed, and what it takes and starts; returns whether it takes or starts something. */
export async function announceNext(
  call: DatabaseCall,
  { foreseen, fingerprint }: NextFile,
): Promise<boolean> {
  const { keyUuid, expiresAt } = foreseen;
  const key = await demandKey(call, keyUuid, "export license");
  call.print.note(
    `The next license of the machine is for ${toId("key", keyUuid)}, valid until ${toTimestamp(expiresAt)}`,
  );
  const startsTerm = announceTerm(call.print, key, call.now);
  const { placeUntil, holdsPlace } = foreseen;
  return (
    announcePlaces(call.print, [{ fingerprint, refusal: undefined, placeUntil, holdsPlace }]) || startsTerm
  );
}

/** A signed license, as programs read it; the path is null if its file is not written. */
interface WrittenLicense {
  readonly path: string | null;
  readonly kid: string;
  readonly jti: string;
  readonly expires_at: string;
}

/** The license that was signed, or why there is none or no file. */
export interface Signed {
  readonly license?: WrittenLicense;
  readonly unwritten?: WrittenLicense;
  readonly why?: string;
}

/** What is said if a report was to be refused, so that nobody was asked for a license, and all are imported nevertheless. */
export const UNASKED: Signed = {
  why: "no license was signed, because a report was to be refused: run the command again",
};

/** Signs the next license and writes its file. The reports are imported already, so nothing that fails may hide that. */
export async function signNext(
  call: DatabaseCall,
  { path, foreseen: { keyUuid }, ...request }: NextFile,
  signer: LicenseSigner,
): Promise<Signed> {
  const { actor, now, print } = call;
  let exported: ReturnType<typeof renderExport>;
  try {
    const signed = await signer.export({ ...request, keyUuid, actor, now });
    if (isRefusal(signed)) return { why: `no license was signed: ${renderRefusal(signed)}` };
    exported = renderExport(signed);
  } catch (error) {
    return { why: `it is not known whether a license was signed: ${explain(call, error)}` };
  }
  const { kid, jti, expires_at, file } = exported;
  const license = { kid, jti, expires_at };
  try {
    await writeNewFile(path, textOf(file));
  } catch (error) {
    const why = `the file of the next license is not written to ${path}: ${renderWriteFailure(error)}`;
    return {
      unwritten: { path: null, ...license },
      why: `${why}; the license is signed and noted all the same, so sign another one with \`claviger licenses export\``,
    };
  }
  print.line(`Wrote the next license of the machine to ${path}`);
  noteExported(print, exported);
  return { license: { path, ...license } };
}

async function* textOf(file: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(file);
}

/** Says why something failed that nobody expected. */
function explain({ config }: DatabaseCall, error: unknown): string {
  if (error instanceof CommandRefused) return error.message;
  return refuseDatabaseFailure(error, config)?.sentence ?? renderFailure(error);
}
