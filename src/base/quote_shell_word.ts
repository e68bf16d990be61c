/** Writes a word of a command so that a shell takes it as it is. */
export function quoteShellWord(word: string): string {
  return /^[\w./:@%+,=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
