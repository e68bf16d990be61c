/** Those who follow the audit log while everything is killed, and those who write it. */
import { openSession, toDatabaseAddress } from "../../src/database/mod.ts";
import { type FollowedLine, startFollower } from "../cli/follower.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { SOURCE } from "../support/service_process.ts";

/** For so long a follower may need for what is left when the end has come. */
export const LEFT_MS = 120_000;

/** A follower is killed after so long at the latest, if it has got a row. */
const LONGEST_MS = 9_000;

export const pickMs = (least: number, most: number) => least + Math.random() * (most - least);

/** When the rows are all written, and which of them is the last one. */
export interface End {
  isOver(): boolean;
  isLast(id: string | undefined): boolean;
  /** Ends the followers at once, as after a failed test. */
  readonly signal: AbortSignal;
}

/** The unique ids of the rows that a follower has got, in order: one list for each time that it began with the first row. */
export type Readings = string[][];

/** A follower that works in the background. */
export interface Following {
  readonly readings: Readings;
  /** How often it was killed. */
  kills: number;
  readonly ended: Promise<void>;
}

/** Starts a follower by its function. */
export function startFollowing(follow: (following: Omit<Following, "ended">) => Promise<void>): Following {
  const following = { readings: [[]], kills: 0 };
  const ended = follow(following);
  ended.catch(() => {});
  return Object.assign(following, { ended });
}

/** How to start the command on a database, from a cursor. */
export const commandOf = (url: string, after: string) => ({
  command: [...SOURCE, "audit", "--follow", "--json", "--after", after, "--env-file", "/dev/null"],
  env: { DATABASE_URL: url, CLAVIGER_SECRET: TEST_SECRET },
});

/** Keeps the rows of a follower that is killed again and again. It begins anew if its cursor has expired. */
export async function followByCommand(
  following: Omit<Following, "ended">,
  url: string,
  { isOver, isLast, signal }: End,
): Promise<void> {
  const { readings } = following;
  let cursor = "start";
  let longestMs = LONGEST_MS;
  const hasAll = () => signal.aborted || (isOver() && isLast(readings.at(-1)?.at(-1)));
  for (let limitMs = inTime(); performance.now() < limitMs && !hasAll(); ) {
    if (!isOver()) limitMs = inTime();
    const { command, env } = commandOf(url, cursor);
    const follower = startFollower(command, env);
    let status: number | undefined;
    void follower.ended.then((ended) => {
      status = ended;
    });
    let accepted = 0;
    const accept = () => {
      for (const line of follower.lines().slice(accepted)) {
        accepted++;
        readings.at(-1)?.push(line.unique_id ?? "");
        ({ cursor } = line);
      }
    };
    const killMs = performance.now() + pickMs(1_000, longestMs);
    while (status === undefined && (isOver() ? performance.now() < limitMs : performance.now() < killMs)) {
      await Bun.sleep(50);
      accept();
      if (hasAll()) break;
    }
    const own = status;
    await follower.stop("SIGKILL");
    // A line that was printed before the kill is accepted, too.
    accept();
    // On a busy machine it may need longer for its first row.
    longestMs = accepted > 0 ? LONGEST_MS : 2 * longestMs;
    if (own === undefined) following.kills++;
    else if (own === 4) {
      readings.push([]);
      cursor = "start";
    } else throw new Error(`A follower ended with ${own}: ${follower.err()}`);
  }
}

/** Keeps the rows of a program that waits for them at services that are killed. It begins anew after 410. */
export async function followByApi(
  { readings }: Pick<Following, "readings">,
  { ports, token }: { readonly ports: readonly number[]; readonly token: string },
  { isOver, isLast, signal }: End,
): Promise<void> {
  const headers = { authorization: `Bearer ${token}` };
  const hasAll = () => signal.aborted || (isOver() && isLast(readings.at(-1)?.at(-1)));
  let after = "";
  let turn = 0;
  for (let limitMs = inTime(); performance.now() < limitMs && !hasAll(); turn++) {
    if (!isOver()) limitMs = inTime();
    const url = `http://127.0.0.1:${ports[turn % ports.length]}/admin/v1/audit?limit=100&wait=5${after}`;
    const answer = await fetch(url, { headers, signal: AbortSignal.timeout(20_000) }).catch(() => undefined);
    const body = await answer?.json().catch(() => undefined);
    if (answer?.status === 200 && body !== undefined) {
      const { data, next } = body as { data: FollowedLine[]; next: string };
      readings.at(-1)?.push(...data.map(({ unique_id = "" }) => unique_id));
      after = `&after=${next}`;
    } else if (answer?.status === 410) {
      readings.push([]);
      after = "";
    } else await Bun.sleep(200);
  }
}

const inTime = () => performance.now() + LEFT_MS;

/** Writes rows in transactions of many lengths, of which some are rolled back, until the end. */
export async function writeRows(url: string, isWritten: () => boolean): Promise<void> {
  while (!isWritten()) {
    const session = openSession(toDatabaseAddress(url), { statementTimeoutMs: 10_000 });
    try {
      await session.connect();
      while (!isWritten()) {
        await session.sql`begin`;
        for (let rows = pickMs(1, 8); rows > 0; rows--)
          await session.sql`insert into audit (at, actor, action) values (now(), 'command:t', 'test.row')`;
        await Bun.sleep(pickMs(0, 60));
        await (Math.random() < 0.1 ? session.sql`rollback` : session.sql`commit`);
      }
    } catch {
      // The server was killed, or another one takes its place.
      await Bun.sleep(100);
    } finally {
      await session.close().catch(() => {});
    }
  }
}
