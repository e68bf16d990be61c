/**
 * Proves that a release can be reproduced: `bun test/build/prove_release.ts` builds it twice, in two folders whose
 * paths have other lengths, one after the other, with other time zones and file modes, and compares every file byte for
 * byte. Both builds fetch, compile and pack everything anew. Prints a line for each file and ends with 1 if one differs.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { copyCheckout } from "./copy_checkout.ts";

const copies = ["claviger", "a-folder-with-a-longer-name"].map((name) => copyCheckout(name));
let differs = 0;
try {
  const [one = "", other = ""] = copies.map(({ folder }, i) => {
    const outdir = join(folder, i === 0 ? "out" : "another-folder-for-what-is-built");
    const command = `umask ${i === 0 ? "022" : "002"} && exec "$0" src/build/release.ts --outdir "$1"`;
    const source = process.env.POSTGRES_SOURCE;
    const env = {
      ...process.env,
      ...(source ? { POSTGRES_SOURCE: resolve(source) } : {}),
      TZ: i === 0 ? "UTC" : "Asia/Kathmandu",
    };
    const build = Bun.spawnSync(["sh", "-c", command, process.execPath, outdir], {
      cwd: folder,
      env,
      stdio: ["ignore", "ignore", "inherit"],
    });
    if (build.exitCode !== 0) throw new Error(`Cannot build the release: status ${build.exitCode}`);
    return outdir;
  });
  const names = new Set([...readdirSync(one), ...readdirSync(other)]);
  for (const name of [...names].sort()) {
    const isEqual = readFileSync(join(one, name)).equals(readFileSync(join(other, name)));
    if (!isEqual) differs++;
    console.log(`${isEqual ? "equal  " : "DIFFERS"}  ${name}`);
  }
} finally {
  for (const copy of copies) copy.remove();
}
console.log(differs === 0 ? "Both releases are equal byte for byte" : `${differs} files differ`);
process.exit(differs === 0 ? 0 : 1);
