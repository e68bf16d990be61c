/** @jsxImportSource hono/jsx */
import type { Refusal } from "../../../refusal.ts";
import { describe, Field, Notice } from "../components.tsx";
import type { Page } from "../page.tsx";

const HINT =
  "The command claviger operators login NAME prints it on the host. It works once, for ten minutes.";

/** The page on which an operator enters a login code; with a refusal it says why the last code did not work. */
export function enterPage(refusal?: Refusal): Page {
  const field = { name: "code", label: "Login code", hint: HINT };
  return {
    title: "Log in",
    script: "enter",
    ...(refusal && { code: refusal.code }),
    body: (
      <section class="narrow">
        <h1>Log in</h1>
        {refusal && <Notice kind="bad">{refusal.sentence}.</Notice>}
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
