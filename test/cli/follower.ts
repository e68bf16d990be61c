/** A follower of the audit log in a process of its own: `claviger audit --follow --json`. */
import { until } from "../support/until.ts";

export interface FollowedLine {
  readonly cursor: string;
  readonly id?: number;
  readonly action?: string;
  readonly key_id?: string | null;
  readonly unique_id?: string;
}

export type Follower = ReturnType<typeof startFollower>;

/** Starts a command that follows, and reads its lines. */
export function startFollower(command: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const child = Bun.spawn([...command], { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const text = { out: "", err: "" };
  const collect = async (stream: ReadableStream<Uint8Array<ArrayBuffer>>, name: keyof typeof text) => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) text[name] += decoder.decode(chunk, { stream: true });
  };
  const read = Promise.all([collect(child.stdout, "out"), collect(child.stderr, "err")]);
  const ended = child.exited.then(async (status) => {
    await read;
    return status;
  });
  /** The whole lines so far. */
  const lines = (): FollowedLine[] =>
    text.out
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line));
  return {
    out: () => text.out,
    err: () => text.err,
    lines,
    ended,
    /** Waits for a line that meets the condition; returns all lines. */
    async untilSeen(isSeen: (line: FollowedLine) => boolean, what = String(isSeen)): Promise<FollowedLine[]> {
      const look = () => lines().some(isSeen);
      await until(look, { what: `${what}: ${text.err}`, limitMs: 30_000 });
      return lines();
    },
    async untilSaid(words: string): Promise<void> {
      await until(() => text.err.includes(words), { what: words, limitMs: 30_000 });
    },
    /** Sends a signal; returns the exit status, and how long the end took. */
    async stop(signal: NodeJS.Signals = "SIGTERM") {
      const beganMs = performance.now();
      child.kill(signal);
      const status = await ended;
      return { status, seconds: (performance.now() - beganMs) / 1_000 };
    },
  };
}
