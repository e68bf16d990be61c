/** HAProxy of this machine, and what the guide's page `replicas` says about it. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { findGuidePage } from "../../src/cli/guide/pages.ts";
import { findFreePort } from "./find_free_port.ts";
import { until } from "./until.ts";

/** The path of the program; null if it is not on this machine. */
export const haproxy = Bun.which("haproxy", { PATH: `${process.env.PATH}:/usr/sbin` });

const page = () => findGuidePage("replicas")?.text ?? "";

/** Returns the text of the page's first block of that kind. Throws if the page has none. */
export function shownConfig(block: "haproxy" | "haproxy-hosts"): string {
  const [, text] = new RegExp(`^\`\`\`${block}\\n(.*?)^\`\`\`$`, "ms").exec(page()) ?? [];
  if (text === undefined) throw new Error(`The page has no block ${block}`);
  return text;
}

/** Returns the pause between the restarts of two replicas, in seconds. Throws if the page shows none. */
export function shownPauseSeconds(): number {
  const [, seconds] = /^systemctl restart \S+; sleep (\d+); systemctl restart \S+$/m.exec(page()) ?? [];
  if (seconds === undefined) throw new Error("The page shows no pause");
  return Number(seconds);
}

/**
 * Starts HAProxy with the page's configuration for one host, which sends requests to these ports in place of the page's,
 * and waits until it finds a replica. A port of the page that is not replaced has no replica.
 */
export async function startBalancer(folder: string, ports: readonly number[]) {
  const port = await findFreePort();
  const url = `http://127.0.0.1:${port}`;
  const shown = shownConfig("haproxy").replace("127.0.0.1:8000", `127.0.0.1:${port}`);
  const unused = ports.length < 3 ? await findFreePort() : 0;
  const text = shown.replaceAll(/:809([123])$/gm, (_, number) => `:${ports[Number(number) - 1] ?? unused}`);
  const file = join(folder, "haproxy.cfg");
  writeFileSync(file, text);
  const process = Bun.spawn([haproxy ?? "", "-f", file], { stdout: "ignore", stderr: "ignore" });
  const close = async () => {
    process.kill();
    await process.exited;
  };
  const isHealthy = async () => (await fetch(`${url}/api/health`).catch(() => undefined))?.status === 200;
  await until(isHealthy, { what: "HAProxy finds a replica" }).catch(async (error) => {
    await close();
    throw error;
  });
  return { url, close };
}
