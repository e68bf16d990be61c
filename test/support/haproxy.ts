/** HAProxy of this machine, and its configurations on the guide's page `replicas`. */
import { findGuidePage } from "../../src/cli/guide/pages.ts";

/** The path of the program; null if it is not on this machine. */
export const haproxy = Bun.which("haproxy", { PATH: `${process.env.PATH}:/usr/sbin` });

/** Returns the text of the page's first block of that kind. Throws if the page has none. */
export function shownConfig(block: "haproxy" | "haproxy-hosts"): string {
  const [, text] =
    new RegExp(`^\`\`\`${block}\\n(.*?)^\`\`\`$`, "ms").exec(findGuidePage("replicas")?.text ?? "") ?? [];
  if (text === undefined) throw new Error(`The page has no block ${block}`);
  return text;
}
