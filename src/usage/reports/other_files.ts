/** Says what a file is that is no report, and what to do: people carry several kinds of files between a closed network and ours. */
import { counted } from "../../base/render_count.ts";

const SEND_AGAIN = "send the file as the machine wrote it with `report FILE`";

/** Where a tar file has its mark. */
const TAR_MARK_AT = 257;

/** Says why a text is no report, as the end of a sentence. */
export function explainOtherFile(text: string): string {
  if (text.trim() === "") return `the file is empty; ${SEND_AGAIN}`;
  if (text.startsWith("ustar", TAR_MARK_AT))
    return `the file is a tar file, such as a bundle, which the machine opens with \`open-bundle\`; ${SEND_AGAIN}`;
  if (text.includes("BEGIN LICENSE"))
    return `the file is a license, which the machine opens with \`open-bundle\`; ${SEND_AGAIN}`;
  const [head = ""] = text.split(".", 1);
  const reports = head === "" ? [] : text.split(`${head}.`).slice(1);
  if (reports.length > 1 && head.startsWith("eyJ"))
    return `the file has ${counted(reports.length, "report")}; put each into a file of its own`;
  const lines = text.split("\n").filter((line) => line.trim() !== "").length;
  if (lines > 1) return `the file has ${counted(lines, "line")}, and a report is one; ${SEND_AGAIN}`;
  if (/[\0\ufffd]/.test(text)) return `the file has bytes that no report has; ${SEND_AGAIN}`;
  return `the text is no report of use, which is three parts of base64url on one line, joined by points; ${SEND_AGAIN}`;
}
