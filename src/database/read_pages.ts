export interface PagesOptions<Row> {
  /** Reads at most `limit` rows after a position, in the order of their positions; the first rows without one. */
  readonly read: (after: string | undefined, limit: number) => Promise<readonly Row[]>;
  readonly positionOf: (row: Row) => string;
  /** Where the list begins; at its first row by default. */
  readonly after?: string | undefined;
  /** The most rows; all by default. */
  readonly most?: number;
}

/** Few, so that the first rows are there soon, and enough for a list of a hundred rows. */
const FIRST_ROWS = 200;
const ROWS = 1_000;

/**
 * Reads a list of any length in pages. Each page is one statement, which is sent when the reader asks for the page.
 * So a long list needs little memory, and a slow reader holds neither a connection nor a transaction. A list without
 * rows is one empty page.
 */
export async function* readPages<Row>(options: PagesOptions<Row>): AsyncGenerator<readonly Row[], undefined> {
  const { read, positionOf } = options;
  let { after, most: left = Number.POSITIVE_INFINITY } = options;
  for (let size = FIRST_ROWS; ; size = ROWS) {
    const limit = Math.min(size, left);
    const rows = await read(after, limit);
    yield rows;
    const last = rows.at(-1);
    left -= rows.length;
    if (last === undefined || rows.length < limit || left === 0) return;
    after = positionOf(last);
  }
}
