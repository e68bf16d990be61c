/**
 * Prints a page of the manual as plain text. Headings keep their `#`, lists their marks and code its backticks; emphasis has
 * no mark. Long lines are wrapped, tables are fitted to the width, and links to other pages become commands.
 *
 * `marked` parses the Markdown. Pages use only headings, paragraphs, lists, tables and code. A test renders every
 * page, and fails for another kind of block.
 */
import { lexer, type Token, type Tokens } from "marked";
import { NO_BREAK, withBlanks, wrapText } from "../wrap_text.ts";

/** Lines longer than this are hard to read, however wide the terminal is. */
const MAX_COLUMNS = 100;
const MIN_COLUMNS = 40;
/** A table that needs a narrower column than this is shown as a list of its rows. */
const MIN_CELL = 14;

/**
 * Returns the page as text for `columns` columns, at least 40 and at most 100. Blocks of code, and words that are longer,
 * are not wrapped.
 */
export function renderGuidePage(markdown: string, columns: number): string {
  const width = Math.max(MIN_COLUMNS, Math.min(columns, MAX_COLUMNS));
  return `${renderBlocks(lexer(markdown), width).join("\n\n")}\n`;
}

function renderBlocks(tokens: readonly Token[], width: number): string[] {
  return tokens
    .filter(({ type }) => type !== "space" && type !== "html")
    .map((token) => renderBlock(token, width));
}

function renderBlock(token: Token, width: number): string {
  switch (token.type) {
    case "heading": {
      const { depth, text } = token as Tokens.Heading;
      return `${"#".repeat(depth)} ${text.replaceAll("`", "")}`;
    }
    case "paragraph":
    case "text":
      return wrap(renderInline(inlineOf(token)), width).join("\n");
    case "code":
      return indent((token as Tokens.Code).text, 4);
    case "list":
      return renderList(token as Tokens.List, width);
    case "table":
      return renderTable(token as Tokens.Table, width);
    default:
      throw new Error(`A page of the guide holds a block of the kind ${token.type}, which is not rendered`);
  }
}

function renderList({ items, ordered, start, loose }: Tokens.List, width: number): string {
  const lines = items.map((item, index) => {
    const mark = ordered ? `${Number(start) + index}. ` : "- ";
    const blocks = renderBlocks(item.tokens, width - mark.length);
    return mark + indent(blocks.join(loose ? "\n\n" : "\n"), mark.length).slice(mark.length);
  });
  return lines.join(loose ? "\n\n" : "\n");
}

/** Wraps the cells of the widest columns until the table fits; shows the rows as a list if it cannot fit. */
function renderTable({ header, rows }: Tokens.Table, width: number): string {
  const render = (cells: readonly Tokens.TableCell[]) => cells.map((cell) => renderInline(cell.tokens));
  const titles = render(header);
  const cells = rows.map(render);
  const widths = fitColumns([titles, ...cells], width - 2 * (titles.length - 1));
  if (widths === undefined) return renderRecords(titles, cells, width);
  const rule = widths.map((each) => "-".repeat(each));
  return [titles, rule, ...cells].map((row) => renderRow(row, widths)).join("\n");
}

function fitColumns(rows: readonly (readonly string[])[], width: number): number[] | undefined {
  const natural = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? "").length)),
  );
  const longestWord = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.flatMap((row) => wordsOf(row[column] ?? "").map(({ length }) => length))),
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
      .map((column, index) => (column[line] ?? "").padEnd(widths[index] ?? 0))
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

function renderInline(tokens: readonly Token[]): string {
  return tokens
    .map((token) => {
      switch (token.type) {
        case "codespan":
          return renderCode((token as Tokens.Codespan).text);
        case "strong":
        case "em":
          return renderInline(inlineOf(token));
        case "link":
          return renderLink(token as Tokens.Link);
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

/** Renders code in backticks. No line breaks at its blanks. */
function renderCode(text: string): string {
  return `\`${text.replaceAll(" ", NO_BREAK)}\``;
}

/** Renders a link to another page with the command that shows the page, and a link within the page as its text. */
function renderLink({ href, tokens }: Tokens.Link): string {
  const text = renderInline(tokens);
  const [, page] = /^([a-z-]+)\.md(?:#.*)?$/.exec(href) ?? [];
  if (page !== undefined) return `${text} (${renderCode(`claviger guide ${page}`)})`;
  return href.startsWith("#") || href === text ? text : `${text} (${href})`;
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
  const words = wordsOf(text).map((word) => (word.length > width ? word.replaceAll(NO_BREAK, " ") : word));
  return wrapText(words.join(" "), width).map(withBlanks);
}

function indent(text: string, width: number): string {
  return text.replaceAll(/^(?=.)/gm, " ".repeat(width));
}
