/** Breaks texts into lines between words. A word that is longer than a line stays whole, so that it can be copied. */
import { Help } from "commander";

/** Stands for a blank at which no line may break: the word joiner of Unicode, which is not a blank. */
export const NO_BREAK = "\u2060";

/** The help of commands is broken by the same function, which leaves narrow texts as they are by default. */
const help = Object.assign(new Help(), { minWidthToWrap: 1 });

/** Returns the lines of a text, each of at most `width` characters. Styles of a terminal have no width. */
export function wrapText(text: string, width: number): string[] {
  const lines = text.length <= width ? [text] : help.boxWrap(text, width).split("\n");
  return lines.map((line) => line.trimEnd().replaceAll(NO_BREAK, " "));
}

/** Breaks a text that begins behind `indent` characters of a line. Its further lines begin there, too. */
export function hangText(
  text: string,
  {
    indent,
    columns = Number.POSITIVE_INFINITY,
  }: { readonly indent: number; readonly columns?: number | undefined },
): string {
  return wrapText(text, columns - indent).join(`\n${" ".repeat(indent)}`);
}
