/** @jsxImportSource hono/jsx */
import type { Refusal } from "../../../refusal.ts";
import { describe, Field } from "../components/form.tsx";
import { Notice } from "../components/layout.tsx";
import type { Page } from "../page.tsx";

const HINT =
  "The command claviger operators login NAME prints it on the host. It works once, for ten minutes.";

export interface EnterOptions {
  /** Why the last code did not work. */
  readonly refusal?: Refusal;
  /** Whether the browser has the cookie of a session that ended. */
  readonly hasEnded?: boolean;
  /** Whether the operator has just logged out. */
  readonly isLoggedOut?: boolean;
}

/** The page on which an operator enters a login code. */
export function enterPage({ refusal, hasEnded = false, isLoggedOut = false }: EnterOptions = {}): Page {
  const field = { name: "code", label: "Login code", hint: HINT };
  return {
    title: "Log in",
    script: "enter",
    ...(refusal && { code: refusal.code }),
    body: (
      <section class="narrow">
        <h1>Log in</h1>
        {refusal && <Notice kind="bad">{refusal.sentence}.</Notice>}
        {isLoggedOut && <Notice kind="good">You are logged out.</Notice>}
        {hasEnded && <Notice kind="warning">Your session has ended: log in again.</Notice>}
        <form method="post" action="/console/enter">
          <Field {...field}>
            <input
              id={field.name}
              name={field.name}
              class="code"
              required
              maxlength={100}
              autocomplete="off"
              autocapitalize="none"
              spellcheck={false}
              autofocus={refusal === undefined}
              {...describe(field)}
            />
          </Field>
          <button type="submit">Log in</button>
        </form>
      </section>
    ),
  };
}
