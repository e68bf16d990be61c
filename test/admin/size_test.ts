import { expect, test } from "bun:test";
import { Size } from "../../src/admin/console/components/values.tsx";

test("Size() shows three digits and the unit that fits", () => {
  const sizes: [megabytes: number, shown: string][] = [
    [0, "0 B"],
    [0.000363, "363 B"],
    [0.7, "700 kB"],
    [2.4123, "2.41 MB"],
    [1_234.5, "1.23 GB"],
    [1_000_000_000, "1,000 TB"],
  ];
  for (const [megabytes, shown] of sizes) expect(Size({ megabytes })).toBe(shown);
});
