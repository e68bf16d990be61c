/**
 * The program that the service is compared with: a bare Hono echo of JSON, without checks, state or
 * headers of its own. It prints its address and serves until it is stopped. With `--line BYTES` it writes the same
 * line of that length to standard error for each request, without buffering.
 */
import { Hono } from "hono";

const [option, bytes] = process.argv.slice(2);
const line = option === "--line" ? `${"x".repeat(Number(bytes) - 1)}\n` : undefined;

const app = new Hono();
app.post("/v1/auth/validate", async (context) => {
  if (line !== undefined) process.stderr.write(line);
  return context.json(await context.req.json());
});
app.post("/v1/analytics/log", async (context) => context.json(await context.req.json(), 202));
const server = Bun.serve({ hostname: "127.0.0.1", port: 0, development: false, fetch: app.fetch });
console.log(`The echo serves at http://${server.hostname}:${server.port}`);
