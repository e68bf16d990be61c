/** The shop of the manual, with the executable: the script and the service are killed while it issues keys. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { findFreePort } from "../support/find_free_port.ts";
import { openShop } from "../support/shop.ts";
import { until } from "../support/until.ts";
import { createPlace } from "./executable.ts";

setDefaultTimeout(120_000);

const place = createPlace();
afterAll(() => place.remove());

test("A shop has exactly one key for each of 100 orders, although its script and the service are killed and a copy starts", async () => {
  const dataDir = join(place.folder, "data");
  const [port, clients] = [await findFreePort(), await findFreePort()];
  const args = ["--admin-listen", `127.0.0.1:${port}`, "--port", String(clients)];
  let service = await place.serve(dataDir, { args });
  const command = async (...words: string[]) => {
    const { status, out, err } = await place.run([...words, "--data-dir", dataDir, "--json"]);
    expect([status, err]).toEqual([0, ""]);
    return JSON.parse(out);
  };
  const { token } = await command(
    ...[
      "tokens",
      "issue",
      "--name",
      "shop",
      "--scope",
      "keys:issue,accounts:join",
      "--tiers",
      "free",
      "--mode",
      "live",
    ],
  );
  const shop = openShop({ url: `http://127.0.0.1:${port}`, token });
  shop.append("orders.csv", "wrong,not-an-address\n");
  let script = shop.start();
  for (const part of [1, 2, 3]) {
    const orders = 25 * part - Math.floor(Math.random() * 20);
    await until(() => shop.delivered().length >= orders, { limitMs: 30_000 });
    if (part === 2) {
      // On a busy machine, the script would end before its copy has started.
      script.kill("SIGSTOP");
      expect(await shop.start().exited).toBe(1);
      script.kill("SIGKILL");
      await script.exited;
      script = shop.start();
    }
    await service.stop("SIGKILL");
    service = await place.serve(dataDir, { args });
  }
  expect(await script.exited).toBe(0);
  const delivered = shop.delivered();
  expect(shop.refused().map(([order]) => order)).toEqual(["wrong"]);
  shop.close();
  expect(delivered.map(([order]) => order)).toEqual([...shop.orders]);
  const keys: { external_id: string; key: string }[] = await command("keys", "list", "--limit", "1000");
  expect(keys.map(({ external_id, key }) => [external_id, key.slice(-4)]).toSorted()).toEqual(
    delivered.map(([order = "", apiKey = ""]) => [order, apiKey.slice(-4)]).toSorted(),
  );
  expect(await service.stop()).toBe(0);
});
