/**
 * Renders a page of the manual for a terminal: wrapped lines, tables that fit, links as commands.
 *
 * `marked` parses the Markdown. Pages use only headings, paragraphs, lists, tables and code. A test renders every
 * page, and fails for another kind of block.
 */
import { stripVTControlCharacters, styleText } from "node:util";
import { lexer, type Token, type Tokens } from "marked";
import { NO_BREAK, withBlanks, wrapText } from "../wrap_text.ts";

export interface PageForm {
  /** The width of the terminal. Code is never wrapped. */
  readonly columns: number;
  /** Whether headings, code and emphasis have styles; false where the output is a file or a pipe. */
  readonly isStyled: boolean;
}

/** Lines longer than this are hard to read, however wide the terminal is. */
const MAX_COLUMNS = 100;
const MIN_COLUMNS = 40;
/** A table that needs a narrower column than this is shown as a list of its rows. */
const MIN_CELL = 14;

/** Returns the page as text for a terminal. */
export function renderPage(markdown: string, { columns, isStyled }: PageForm): string {
  const width = Math.max(MIN_COLUMNS, Math.min(columns, MAX_COLUMNS));
  const plain: Style = (format, text) => (format === "cyan" ? `\`${text}\`` : text);
  const styled: Style = (format, text) => styleText(format, text, { validateStream: false });
  const style = isStyled ? styled : plain;
  return `${renderBlocks(lexer(markdown), width, style).join("\n\n")}\n`;
}

type Style = (format: "bold" | "cyan" | "underline" | "italic" | "dim", text: string) => string;

function renderBlocks(tokens: readonly Token[], width: number, style: Style): string[] {
  return tokens
    .filter(({ type }) => type !== "space" && type !== "html")
    .map((token) => renderBlock(token, width, style));
}

function renderBlock(token: Token, width: number, style: Style): string {
  switch (token.type) {
    case "heading": {
      const { depth, text } = token as Tokens.Heading;
      const title = text.replaceAll("`", "");
      return style("bold", depth === 1 ? title.toUpperCase() : title);
    }
    case "paragraph":
    case "text":
      return wrap(renderInline(inlineOf(token), style), width).join("\n");
    case "code":
      return indent((token as Tokens.Code).text, 4);
    case "list":
      return renderList(token as Tokens.List, width, style);
    case "table":
      return renderTable(token as Tokens.Table, width, style);
    default:
      throw new Error(`A page of the guide holds a block of the kind ${token.type}, which is not rendered`);
  }
}

function renderList({ items, ordered, start, loose }: Tokens.List, width: number, style: Style): string {
  const lines = items.map((item, index) => {
    const mark = ordered ? `${Number(start) + index}. ` : "- ";
    const blocks = renderBlocks(item.tokens, width - mark.length, style);
    return mark + indent(blocks.join(loose ? "\n\n" : "\n"), mark.length).slice(mark.length);
  });
  return lines.join(loose ? "\n\n" : "\n");
}

/** Wraps the cells of the widest columns until the table fits; shows the rows as a list if it cannot fit. */
function renderTable({ header, rows }: Tokens.Table, width: number, style: Style): string {
  const render = (cells: readonly Tokens.TableCell[]) =>
    cells.map((cell) => renderInline(cell.tokens, style));
  const titles = render(header).map((title) => style("bold", title));
  const cells = rows.map(render);
  const widths = fitColumns([titles, ...cells], width - 2 * (titles.length - 1));
  if (widths === undefined) return renderRecords(titles, cells, width);
  return [titles, ...cells].map((row) => renderRow(row, widths)).join("\n");
}

function fitColumns(rows: readonly (readonly string[])[], width: number): number[] | undefined {
  const natural = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => lengthOf(row[column] ?? ""))),
  );
  const longestWord = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.flatMap((row) => wordsOf(row[column] ?? "").map(lengthOf))),
  );
  const widths = [...natural];
  const sum = () => widths.reduce((total, each) => total + each, 0);
  while (sum() > width) {
    const widest = Math.max(...widths);
    const column = widths.indexOf(widest);
    if (widest - 1 < Math.max(MIN_CELL, longestWord[column] ?? 0)) return undefined;
    widths[column] = widest - 1;
  }
  return widths;
}

function renderRow(row: readonly string[], widths: readonly number[]): string {
  const columns = row.map((cell, column) => wrap(cell, widths[column] ?? MIN_CELL));
  const height = Math.max(...columns.map(({ length }) => length));
  const lines = Array.from({ length: height }, (_, line) =>
    columns
      .map((column, index) => pad(column[line] ?? "", widths[index] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  return lines.join("\n");
}

/** Renders each row as a record: its first cell, and below it the other cells with their titles. */
function renderRecords(
  titles: readonly string[],
  rows: readonly (readonly string[])[],
  width: number,
): string {
  const records = rows.map(([first = "", ...rest]) =>
    [
      ...wrap(first, width),
      ...rest.flatMap((cell, index) => {
        if (cell === "") return [];
        const named = rest.length === 1 ? cell : `${titles[index + 1]}: ${cell}`;
        return indent(wrap(named, width - 4).join("\n"), 4);
      }),
    ].join("\n"),
  );
  return records.join("\n");
}

function renderInline(tokens: readonly Token[], style: Style): string {
  return tokens
    .map((token) => {
      switch (token.type) {
        case "codespan":
          return renderCode((token as Tokens.Codespan).text, style);
        case "strong":
          return style("bold", renderInline(inlineOf(token), style));
        case "em":
          return style("italic", renderInline(inlineOf(token), style));
        case "link":
          return renderLink(token as Tokens.Link, style);
        case "br":
          return " ";
        case "text":
        case "escape":
          return (token as Tokens.Text).text.replaceAll("\n", " ");
        default:
          throw new Error(`A page of the guide holds ${token.type}, which is not rendered`);
      }
    })
    .join("");
}

/** Renders code in a colour, or without styles in backticks. */
function renderCode(text: string, style: Style): string {
  return style("cyan", text.replaceAll(" ", NO_BREAK));
}

/** Renders a link to another page with the command that shows the page, and a link within the page as its text. */
function renderLink({ href, tokens }: Tokens.Link, style: Style): string {
  const text = renderInline(tokens, style);
  const [, page] = /^([a-z-]+)\.md(?:#.*)?$/.exec(href) ?? [];
  if (page !== undefined) return `${text} (${renderCode(`claviger guide ${page}`, style)})`;
  return href.startsWith("#") || href === stripVTControlCharacters(text) ? text : `${text} (${href})`;
}

function inlineOf(token: Token): readonly Token[] {
  return "tokens" in token && token.tokens !== undefined
    ? token.tokens
    : [{ ...token, type: "text" } as Token];
}

function wordsOf(text: string): string[] {
  return text.split(" ").filter((word) => word !== "");
}

/** Breaks a text into lines at its blanks. Code that is longer than the width breaks at its own blanks. */
function wrap(text: string, width: number): string[] {
  const words = wordsOf(text).map((word) => (lengthOf(word) > width ? word.replaceAll(NO_BREAK, " ") : word));
  return wrapText(words.join(" "), width).map(withBlanks);
}

function lengthOf(text: string): number {
  return stripVTControlCharacters(text).length;
}

function pad(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - lengthOf(text)));
}

function indent(text: string, width: number): string {
  return text.replaceAll(/^(?=.)/gm, " ".repeat(width));
}
