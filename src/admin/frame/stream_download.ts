import { type Actor, isHeld, nameOfActor, type Right } from "../../audit/mod.ts";
import type { InFlight } from "../../base/rate_limits/mod.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { renderFailureCause } from "../../database/mod.ts";
import type { AdminOptions } from "./options.ts";

export interface Download {
  /** What it is, for the log: `A CSV`. */
  readonly what: string;
  /** The name of the file, which begins the name in the log. */
  readonly name: string;
  readonly ending: string;
  readonly contentType: string;
  /** Bounds what is in progress at once, and the refusal of one more. */
  readonly inFlight: InFlight;
  readonly tooMany: Refusal;
  /** How many parts leave so much garbage that it is to be collected. */
  readonly partsBetweenCollections: number;
  /** Begins the file, in parts, at least one; each is made when it is asked for. Called when there is room for the download. */
  open(): Promise<AsyncGenerator<Uint8Array, undefined> | Refusal>;
}

/** Who downloads a file. */
export interface Downloader {
  readonly options: Pick<AdminOptions, "log" | "clock" | "database" | "collectGarbage">;
  readonly actor: Actor;
  /** Asked before each part but the first: a download can take hours. */
  readonly right: Right;
}

/**
 * Answers a file that is made while it is sent. The next part is made after the client has received the previous part, so
 * neither a long file nor a slow client uses much memory. A client that disconnects ends the making, and so does the loss of the
 * right to the file.
 */
export async function streamDownload(
  { what, name, ending, contentType, inFlight, tooMany, partsBetweenCollections, open }: Download,
  { options, actor, right }: Downloader,
): Promise<Response | Refusal> {
  const { log, clock, database, collectGarbage } = options;
  let isOver = false;
  const begun = inFlight.begin(nameOfActor(actor), { nowMs: clock.monotonicMs(), isOver: () => isOver });
  if (begun !== "begun") return tooMany;
  const end = <Given>(given: Given) => {
    isOver = true;
    return given;
  };
  const opened = await open().catch((error: unknown) => {
    throw end(error);
  });
  if (isRefusal(opened)) return end(opened);
  async function* checkParts(parts: AsyncGenerator<Uint8Array, undefined>) {
    let sent = 0;
    try {
      for await (const part of parts) {
        if (sent > 0 && !(await isHeld(database, right, clock.now()))) throw new Error(right.lost.why);
        yield part;
        if (++sent % partsBetweenCollections === 0) collectGarbage?.();
      }
    } finally {
      isOver = true;
    }
  }
  const checked = checkParts(opened);
  // Read before the answer begins, so that a failure still gets its own status.
  let part = await checked.next();
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (part.done) return controller.close();
      controller.enqueue(part.value);
      part = await checked.next().catch((error) => {
        // The status is sent already: the client sees that the connection is closed too early.
        log.warn(`${what} ended too early`, { name, reason: renderFailureCause(error) });
        throw error;
      });
    },
    cancel: () => checked.return().then(() => {}),
  });
  return new Response(stream, {
    headers: {
      "Content-Type": contentType,
      "Content-Disposition": `attachment; filename="${name}.${ending}"`,
    },
  });
}
