/** A million bundles, each with one altered place: none is accepted, and the reader keeps no memory. */
import { expect, test } from "bun:test";
import { createRandom } from "../../support/random.ts";
import { useForAll } from "../../support/use.ts";
import { createBundleKit, isAccepted } from "./bundle_kit.ts";

// Takes over a minute.

const POSITIONS = 1_000_000;
/** Of the CPU: other programs may have most of the machine. */
const MOST_MINUTES = 8;
/** Of the resident memory, after the first tenth. */
const MOST_GROWTH_BYTES = 100_000_000;

const kit = useForAll(createBundleKit);

test("none of a million altered bundles is accepted, and memory stays as it is", async () => {
  await kit.host({ name: "wave", version: "2.0.0", fileName: "wave.onnx" }, "w".repeat(700));
  const files = [{ name: "a.txt", path: kit.write("a.txt", "added") }];
  const { bytes } = await kit.make(await kit.issueUuid(), { files }, { fingerprint: "workstation-7" });
  const trusted = await kit.listTrusted();
  expect(await isAccepted(bytes, trusted)).toBe(true);
  const seed = Math.floor(Math.random() * 2 ** 32);
  const random = createRandom(seed);
  const altered = Buffer.from(bytes);
  const before = process.cpuUsage();
  let residentBytes = Number.POSITIVE_INFINITY;
  for (let n = 0; n < POSITIONS; n++) {
    if (n === POSITIONS / 10) residentBytes = process.memoryUsage().rss;
    // Each position is altered in its turn, and each time by other bits.
    const at = n % bytes.length;
    const kept = bytes[at] ?? 0;
    altered[at] = kept ^ random.between(1, 255);
    if (await isAccepted(altered, trusted))
      throw new Error(`Seed ${seed}: accepted with another byte at ${at}`);
    altered[at] = kept;
  }
  const grownBytes = process.memoryUsage().rss - residentBytes;
  const { user, system } = process.cpuUsage(before);
  const minutes = (user + system) / 60_000_000;
  console.log(
    `${POSITIONS} altered bundles in ${minutes.toFixed(1)} min of the CPU; memory grew by ${Math.round(grownBytes / 1e6)} MB`,
  );
  expect(grownBytes).toBeLessThan(MOST_GROWTH_BYTES);
  expect(minutes).toBeLessThan(MOST_MINUTES);
  expect(await isAccepted(altered, trusted)).toBe(true);
});

test("none of a hundred thousand bundles with parts cut out, doubled or exchanged is accepted", async () => {
  const { bytes } = await kit.make(await kit.issueUuid(), { models: ["wave"] });
  const trusted = await kit.listTrusted();
  const seed = Math.floor(Math.random() * 2 ** 32);
  const random = createRandom(seed);
  for (let n = 0; n < 100_000; n++) {
    // Whole blocks are what a tar reader could be led astray with.
    const unit = random.pick([1, 512]);
    const place = () => random.between(0, Math.floor(bytes.length / unit)) * unit;
    const [from = 0, to = 0, at = 0] = [place(), place(), place()].sort((one, other) => one - other);
    const [head, first, second, tail] = [
      bytes.subarray(0, from),
      bytes.subarray(from, to),
      bytes.subarray(to, at),
      bytes.subarray(at),
    ];
    const altered = Buffer.concat(
      random.pick([
        [head, second, tail],
        [head, first, first, second, tail],
        [head, second, first, tail],
        [head, first, second],
      ]),
    );
    if (altered.equals(bytes)) continue;
    if (await isAccepted(altered, trusted)) throw new Error(`Seed ${seed}: accepted case ${n}`);
  }
});
