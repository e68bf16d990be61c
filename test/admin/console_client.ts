/** Sends requests to the console as a browser does, without a browser. */
import { expect } from "bun:test";
import { loginOperator, type Role } from "../../src/operators/mod.ts";
import type { TestAdmin } from "../support/admin.ts";
import { ACTOR, orThrow } from "../support/issue.ts";

export interface Sent {
  readonly method?: string;
  readonly cookie?: string;
  /** Sent by POST, with the console's own origin. */
  readonly form?: Readonly<Record<string, string>> | [name: string, value: string][];
  /** A body that is sent as it is, also with the console's own origin. */
  readonly file?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export function createConsoleClient(admin: Pick<TestAdmin, "url" | "database" | "clock">) {
  let operators = 0;

  async function send(path: string, { method, cookie, form, file, headers = {} }: Sent = {}) {
    const answer = await fetch(`${admin.url}/console${path}`, {
      method: method ?? (form ? "POST" : "GET"),
      redirect: "manual",
      headers: { ...((form ?? file) && { origin: admin.url }), ...(cookie && { cookie }), ...headers },
      ...(form && { body: new URLSearchParams(form) }),
      ...(file && { body: file }),
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, text, location: answer.headers.get("location") };
  }

  async function newCode(name: string, role: Role = "admin"): Promise<string> {
    const by = { actor: ACTOR, now: admin.clock.now() };
    return orThrow(await loginOperator(admin.database, { name, role }, by)).code;
  }

  return {
    send,
    /** Sends a form, and returns the page that the answer is or leads to, with the status of the answer. */
    async submit(path: string, { cookie, form }: Required<Pick<Sent, "cookie" | "form">>) {
      const { status, text, location } = await send(path, { cookie, form });
      if (location === null) return { status, text };
      return { status, text: (await send(location.replace(/^\/console/, ""), { cookie })).text };
    },
    newCode,
    /** Logs an operator in, by default a new one; returns the name and the cookie. */
    async logIn(role: Role = "admin", name = `operator-${++operators}`) {
      const { status, headers } = await send("/enter", { form: { code: await newCode(name, role) } });
      expect(status).toBe(303);
      return { name, cookie: headers.get("set-cookie")?.split(";")[0] ?? "" };
    },
    isLoggedIn: async (cookie: string) => (await send("/keys", { cookie })).status === 200,
    async countRows(table: "keys" | "operator_sessions") {
      const [row] = await admin.database.query<{ n: number }>(
        (sql) => sql`select count(*)::int as n from ${sql(table)}`,
      );
      return row?.n ?? 0;
    },
  };
}
