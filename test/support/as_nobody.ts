/** Runs `work` as an ordinary user, also if root runs the tests: root may read every file. */
export function asNobody(work: () => void): void {
  const isRoot = process.getuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    work();
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
}
