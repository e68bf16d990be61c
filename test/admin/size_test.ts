import { expect, test } from "bun:test";
import { Size } from "../../src/admin/frame/console/components/values.tsx";
import { toBytes } from "../../src/models/mod.ts";

test("Size() shows three digits and the unit that fits", () => {
  const sizes: [bytes: number, shown: string][] = [
    [0, "0 B"],
    [363, "363 B"],
    [700_000, "700 kB"],
    [2_412_300, "2.41 MB"],
    [1_234_500_000, "1.23 GB"],
    [1e15, "1,000 TB"],
  ];
  for (const [bytes, shown] of sizes) expect(Size({ bytes })).toBe(shown);
  // Models have their sizes in megabytes.
  for (const [megabytes, shown] of [
    [0.000363, "363 B"],
    [2.41, "2.41 MB"],
  ] as const)
    expect(Size({ bytes: toBytes(megabytes) })).toBe(shown);
});
