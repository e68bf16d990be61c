/** @jsxImportSource hono/jsx */
import type { Refusal } from "../../../refusal.ts";
import { Notice } from "./components/layout.tsx";
import { Foreign } from "./components/values.tsx";
import type { Page } from "./page.tsx";

/** The page that says why a request was refused. */
export function refusalPage({ code, sentence }: Refusal): Page {
  return {
    title: "Not possible",
    code,
    body: (
      <section class="narrow">
        <h1>Not possible</h1>
        <Notice kind="bad">
          <Foreign text={`${sentence}.`} />
        </Notice>
        <p>
          <a href="/console/">Go to the first page</a>
        </p>
      </section>
    ),
  };
}
