/**
 * The pictures of the front page: the list of keys, and the page of a customer, of the demo. Each picture keeps the menu
 * that it shows, so that a test can tell when it is old. `PICTURES=renew` takes them again.
 */
import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { Page } from "playwright-core";
import { findAccount } from "../../src/licensing/mod.ts";
import { addDemo } from "../support/demo.ts";
import { useForAll } from "../support/use.ts";
import { startConsole } from "./support/console.ts";

const ADMIN = join(import.meta.dir, "../../src/admin");
const WIDTH = 1200;
/** The keyword under which a picture keeps the menu, as text. Source: PNG, 11.3.3.2. */
const KEYWORD = "Menu";

const admin = useForAll(startConsole);
const withDemo = useForAll(async () => {
  await addDemo(admin.testDatabase, admin.clock.now());
  const account = await findAccount(admin.database, { email: "fjordhall@demo.example" });
  return { customer: account?.id ?? "", close: async () => {} };
});

const PICTURES = [
  { file: "keys/keys.png", path: () => "/keys", height: 800 },
  { file: "accounts/account.png", path: () => `/accounts/${withDemo.customer}`, height: 1150 },
];

for (const { file, path, height } of PICTURES) {
  test(`${file} shows the menu of today`, async () => {
    const menu = await admin.visitAs("admin", { path: path(), width: WIDTH }, async (page) => {
      await page.setViewportSize({ width: WIDTH, height });
      const shown = await menuOf(page);
      if (process.env.PICTURES === "renew")
        writeFileSync(join(ADMIN, file), withText(await page.screenshot(), shown));
      return shown;
    });

    expect(menu.split(", ").length).toBeGreaterThan(5);
    expect({ file, menu: readText(readFileSync(join(ADMIN, file))) }).toEqual({ file, menu });
  });
}

async function menuOf(page: Page): Promise<string> {
  return (await page.locator('nav[aria-label="Menu"] a').allTextContents())
    .map((label) => label.trim())
    .join(", ");
}

/** Adds a text before the last chunk of a picture. */
function withText(picture: Buffer, text: string): Buffer {
  const content = Buffer.from(`tEXt${KEYWORD}\0${text}`, "latin1");
  const chunk = Buffer.alloc(content.length + 8);
  chunk.writeUInt32BE(content.length - 4, 0);
  content.copy(chunk, 4);
  chunk.writeUInt32BE(crc32(content), content.length + 4);
  const end = picture.length - 12;
  return Buffer.concat([picture.subarray(0, end), chunk, picture.subarray(end)]);
}

/** Reads that text; undefined if the picture has none. */
function readText(picture: Buffer): string | undefined {
  for (let at = 8; at < picture.length; at += 12 + picture.readUInt32BE(at)) {
    const content = picture.toString("latin1", at + 4, at + 8 + picture.readUInt32BE(at));
    if (content.startsWith(`tEXt${KEYWORD}\0`)) return content.slice(`tEXt${KEYWORD}\0`.length);
  }
  return undefined;
}
