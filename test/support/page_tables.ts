/** Reads the tables of a page of the console as text. */

/** The rows of each table by its caption; a row is the text of its cells. */
export type Tables = Record<string, string[][]>;

/** Throws if two tables have the same caption. */
export function readTables(html: string): Tables {
  const tables: Tables = {};
  for (const [, table = ""] of html.matchAll(/<table[^>]*>(.*?)<\/table>/gs)) {
    const [, caption = ""] = /<caption>(.*?)<\/caption>/s.exec(table) ?? [];
    const name = toText(caption);
    if (name in tables) throw new Error(`Two tables have the caption ${name}`);
    tables[name] = [...table.matchAll(/<tr[^>]*>(.*?)<\/tr>/gs)].map(([, row = ""]) =>
      [...row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)].map(([, cell = ""]) => toText(cell)),
    );
  }
  return tables;
}

/** Returns the text of a part of a page: a space stands for tags. */
function toText(html: string): string {
  const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };
  return (
    html
      // A place where a line may end is no space.
      .replace(/<wbr[^>]*>/g, "")
      .replace(/<[^>]*>/g, " ")
      .replace(/&([#\w]+);/g, (whole, name: string) => entities[name] ?? whole)
      .replace(/\s+/g, " ")
      .trim()
  );
}
