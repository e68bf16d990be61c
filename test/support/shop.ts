/** The shop of the manual: runs the script of the page `operators` in a folder with orders. */
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PAGE = join(import.meta.dir, "../../src/cli/guide/operators.md");

export interface Shop {
  /** The numbers of the orders that can be issued. */
  readonly orders: readonly string[];
  /** Starts the script. */
  start(): Bun.Subprocess<"ignore", "inherit", "pipe">;
  /** The rows that the script has written: orders and their API keys. */
  delivered(): string[][];
  /** The rows of refused orders, each with the reason. */
  refused(): string[][];
  /** The rows of orders that the script has sent, each with its `Idempotency-Key`. */
  sent(): string[][];
  /** Adds text to the end of a file of the shop. */
  append(file: string, text: string): void;
  /** Deletes a file of the shop. */
  forget(file: string): void;
  close(): void;
}

/** 100 orders. Two have numbers that are equal as numbers, and one has characters beyond ASCII. */
const ORDERS = [...Array.from({ length: 97 }, (_, index) => `2026-${index}`), "7", "007", "Größe 7/注文"];

/** Makes the folder with the orders. The script knows the address of the listener for operators, and its token. */
export function openShop({
  url,
  token,
  orders = ORDERS,
}: {
  readonly url: string;
  readonly token: string;
  readonly orders?: readonly string[];
}): Shop {
  const [, script] = /```python\n([\s\S]*?)```/.exec(readFileSync(PAGE, "utf8")) ?? [];
  if (script === undefined) throw new Error("The page operators has no script");
  const folder = mkdtempSync(join(tmpdir(), "claviger-shop-"));
  const append = (file: string, text: string) => appendFileSync(join(folder, file), text);
  append("orders.csv", orders.map((order, index) => `${order},buyer-${index % 40}@example.org\n`).join(""));
  const env = { PATH: process.env.PATH ?? "", CLAVIGER_ADMIN_URL: url, SHOP_TOKEN: token };
  const rowsOf = (file: string) => {
    const path = join(folder, file);
    const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
    return lines.map((line) => [line.slice(0, line.indexOf(",")), line.slice(line.indexOf(",") + 1)]);
  };
  return {
    orders,
    start: () =>
      Bun.spawn(["python3", "-c", script], { cwd: folder, env, stdout: "inherit", stderr: "pipe" }),
    delivered: () => rowsOf("keys.csv"),
    refused: () => rowsOf("refused.csv"),
    sent: () => rowsOf("sent.csv"),
    append,
    forget: (file) => rmSync(join(folder, file)),
    close: () => rmSync(folder, { recursive: true, force: true }),
  };
}
