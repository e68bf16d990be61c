/** Says what a file is that is no report, and what to do: people carry several kinds of files between a closed network and ours. */
import { counted } from "../../base/render_count.ts";

const SEND_AGAIN = "send the file as the machine wrote it with `report FILE`";

/** Where a tar file has its mark. */
const TAR_MARK_AT = 257;

/** The kind of a file can be told by its first characters. */
const HEAD_CHARACTERS = 64 * 1024;
const MOST_COUNTED = 1_000;

/** Says why a text of up to 32 MiB is no report, as the end of a sentence. */
export function explainOtherFile(text: string): string {
  const begin = text.slice(0, HEAD_CHARACTERS);
  if (begin.trim() === "") return `the file is empty; ${SEND_AGAIN}`;
  if (begin.startsWith("ustar", TAR_MARK_AT))
    return `the file is a tar file, such as a bundle, which the machine opens with \`open-bundle\`; ${SEND_AGAIN}`;
  if (begin.includes("BEGIN LICENSE"))
    return `the file is a license, which the machine opens with \`open-bundle\`; ${SEND_AGAIN}`;
  const [head = ""] = begin.split(".", 1);
  const reports = head.startsWith("eyJ") ? countOf(`${head}.`, text) : 0;
  if (reports > 1) return `the file has ${several(reports, "report")}; put each into a file of its own`;
  const lines = begin.split("\n").filter((line) => line.trim() !== "").length;
  if (lines > 1) return `the file has ${several(lines, "line")}, and a report is one; ${SEND_AGAIN}`;
  if (/[\0\ufffd]/.test(begin)) return `the file has bytes that no report has; ${SEND_AGAIN}`;
  return `the text is no report of use, which is three parts of base64url on one line, joined by points; ${SEND_AGAIN}`;
}

/** Counts how often a text contains another, up to a bound. */
function countOf(what: string, text: string): number {
  let count = 0;
  for (
    let at = text.indexOf(what);
    at !== -1 && count < MOST_COUNTED;
    at = text.indexOf(what, at + what.length)
  )
    count++;
  return count;
}

function several(count: number, noun: string): string {
  return count < MOST_COUNTED ? counted(count, noun) : `many ${noun}s`;
}
