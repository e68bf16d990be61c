/**
 * The program that the service is compared with: a bare Hono echo of JSON, without checks, state or
 * headers of its own. It prints its address and serves until it is stopped. With `--line BYTES` it writes the same
 * line of that length to standard error for each request, without buffering. With `--like ANSWER`, an
 * {@linkcode AnswerForm} as JSON, its answers have those headers and that length.
 */
import { Hono } from "hono";

/** The form of an answer: its headers, and how many bytes its body has more than the body of the request. */
export interface AnswerForm {
  readonly headers: Readonly<Record<string, string>>;
  readonly addedBytes: number;
}

const [option, value = ""] = process.argv.slice(2);
const line = option === "--line" ? `${"x".repeat(Number(value) - 1)}\n` : undefined;
const form: AnswerForm | undefined = option === "--like" ? JSON.parse(value) : undefined;
const field = { added: "x".repeat(Math.max(0, (form?.addedBytes ?? 0) - ',"added":""'.length)) };

const app = new Hono();
app.post("/v1/auth/validate", async (context) => {
  if (line !== undefined) process.stderr.write(line);
  const body = await context.req.json();
  return form === undefined ? context.json(body) : context.json({ ...body, ...field }, 200, form.headers);
});
app.post("/v1/analytics/log", async (context) => context.json(await context.req.json(), 202));
const server = Bun.serve({ hostname: "127.0.0.1", port: 0, development: false, fetch: app.fetch });
console.log(`The echo serves at http://${server.hostname}:${server.port}`);
