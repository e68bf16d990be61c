/**
 * Tells whether root runs the tests. If not, prints which tests are skipped, for people who could run them
 * as root.
 */
export function isRoot(tests: string): boolean {
  const yes = process.getuid?.() === 0;
  if (!yes) console.error(`Skipped, since root does not run the tests: ${tests}`);
  return yes;
}
