/** Spans of time as operators write them. */

/** Parses whole days or hours, `7d` or `12h`, into milliseconds; undefined for any other text and above ten years. */
export function parseSpan(text: string): number | undefined {
  const match = /^(\d{1,5})([dh])$/.exec(text);
  const ms = Number(match?.[1]) * (match?.[2] === "d" ? 86_400_000 : 3_600_000);
  return ms <= 3_650 * 86_400_000 ? ms : undefined;
}
