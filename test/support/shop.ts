/** The shop of the manual: runs the script of the page `operators` in a folder with 100 orders. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PAGE = join(import.meta.dir, "../../src/cli/guide/operators.md");

export interface Shop {
  /** The numbers of the orders. */
  readonly orders: readonly string[];
  /** Starts the script. */
  start(): Bun.Subprocess;
  /** The lines that the script has written: the order and its API key. */
  delivered(): string[][];
  close(): void;
}

/** Makes the folder. The script knows the address of the listener for operators, and its token. */
export function openShop({ url, token }: { readonly url: string; readonly token: string }): Shop {
  const [, script] = /```python\n([\s\S]*?)```/.exec(readFileSync(PAGE, "utf8")) ?? [];
  if (script === undefined) throw new Error("The page operators has no script");
  const folder = mkdtempSync(join(tmpdir(), "claviger-shop-"));
  const orders = Array.from({ length: 100 }, (_, index) => `2026-${index}`);
  const lines = orders.map((order, index) => `${order},buyer-${index % 40}@example.org\n`);
  writeFileSync(join(folder, "orders.csv"), lines.join(""));
  const env = { PATH: process.env.PATH ?? "", CLAVIGER_ADMIN_URL: url, CLAVIGER_TOKEN: token };
  return {
    orders,
    start: () =>
      Bun.spawn(["python3", "-c", script], { cwd: folder, env, stdout: "inherit", stderr: "inherit" }),
    delivered() {
      const path = join(folder, "keys.csv");
      const text = existsSync(path) ? readFileSync(path, "utf8").trim() : "";
      return text === "" ? [] : text.split("\n").map((line) => line.split(","));
    },
    close: () => rmSync(folder, { recursive: true, force: true }),
  };
}
