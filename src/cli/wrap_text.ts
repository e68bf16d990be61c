/** Breaks texts into lines between words. A word that is longer than a line stays whole, so that it can be copied. */
import { Help } from "commander";

/** Stands for a blank at which no line may break: the word joiner of Unicode, which is not a blank. */
export const NO_BREAK = "\u2060";

/** Puts blanks in place of {@linkcode NO_BREAK} in lines that are broken. */
export function withBlanks(text: string): string {
  return text.replaceAll(NO_BREAK, " ");
}

/** The help of commands is broken by the same function, which by default breaks no line below 40 columns. */
const help = Object.assign(new Help(), { minWidthToWrap: 1 });

/** Returns the lines of a text, of at most `width` characters where words allow it. Styles of a terminal have no width. */
export function wrapText(text: string, width: number): string[] {
  const lines = text.length <= width ? [text] : help.boxWrap(text, width).split("\n");
  return lines.map((line) => line.trimEnd());
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
