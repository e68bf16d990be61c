/** What `claviger tiers list` shows to people. */
import { expect, test } from "bun:test";
import { useCommandLine } from "./use_command_line.ts";

const line = useCommandLine({ prepared: true });

test("claviger tiers list shows limit, values and features of each tier, within the width of the terminal", async () => {
  await line.json(["tiers", "value", "research", "channels=8, support=mail", "--yes"]);
  const wide = await line.here(["tiers", "list"]);
  expect(wide.out.split("\n").slice(0, 3)).toEqual([
    expect.stringMatching(/^TIER +LICENSES +MONTHLY LIMIT +VALUES +FEATURES *$/),
    expect.stringMatching(/^free +0 +10,000 +- +batch_inference *$/),
    expect.stringMatching(
      /^research +0 +50,000 +channels=8, support=mail +batch_inference, streaming, training, /,
    ),
  ]);
  expect(wide.out).toMatch(/^enterprise +0 +unlimited .*, on_premise *$/m);
  const long = `channels=8, note="${"a longer text ".repeat(9)}, and its end"`;
  for (const values of ["channels=8", long]) {
    await line.json(["tiers", "value", "free", values, "--yes"]);
    const { out } = await line.here(["tiers", "list"], { columns: 80 });
    expect(Math.max(...out.split("\n").map((text) => text.length))).toBeLessThanOrEqual(80);
    expect(out.replaceAll(/\s+/g, " ")).toContain(values);
  }
});
