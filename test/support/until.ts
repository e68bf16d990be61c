/** Waits for something that is about to happen; throws after ten seconds, which a busy machine may need. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const beganMs = performance.now();
  while (!(await isSo())) {
    if (performance.now() - beganMs > 10_000) throw new Error("It did not happen within ten seconds");
    await Bun.sleep(5);
  }
}
