/**
 * What validate is measured against: a bare Hono echo of JSON, which checks nothing, knows nothing and sets
 * no header of its own. Prints its address and serves until it is told to stop.
 */
import { Hono } from "hono";

const app = new Hono();
app.post("/v1/auth/validate", async (context) => context.json(await context.req.json()));
const server = Bun.serve({ hostname: "127.0.0.1", port: 0, development: false, fetch: app.fetch });
console.log(`The echo serves at http://${server.hostname}:${server.port}`);
