/** Waits for something that is about to happen; throws after two seconds. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const beganMs = performance.now();
  while (!(await isSo())) {
    if (performance.now() - beganMs > 2_000) throw new Error("It did not happen within two seconds");
    await Bun.sleep(5);
  }
}
