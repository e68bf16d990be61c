/** Floods a table with a million addresses, in a process of its own because it measures memory. Prints the figures. */
import { WindowTable } from "../../../src/base/rate_limits/mod.ts";

const table = new WindowTable(10, 20_000);
table.take("customer", 0);
Bun.gc(true);
const memoryBefore = process.memoryUsage().rss;
const before = process.cpuUsage();
let slowestMs = 0;
for (let batch = 0; batch < 1000; batch++) {
  const batchBefore = process.cpuUsage();
  // A thousand addresses every 20 ms: 50,000 a second.
  for (let i = 0; i < 1000; i++) table.take(`2001:db8:${batch}:${i}::/64`, batch * 20);
  slowestMs = Math.max(slowestMs, process.cpuUsage(batchBefore).user / 1_000);
}
// Time on a processor, because other programs may run meanwhile.
const cpuMs = process.cpuUsage(before).user / 1_000;
const windows = table.stats().windows;
Bun.gc(true);
const grownBytes = process.memoryUsage().rss - memoryBefore;
// The customer that came before the flood keeps its remaining requests.
const customer = table.take("customer", 20_000);
// Each call frees a few empty windows.
for (let i = 0; i < 5_001; i++) table.take("customer", 200_000 + i);
console.log(
  JSON.stringify({ cpuMs, slowestMs, windows, grownBytes, customer, windowsLeft: table.stats().windows }),
);
