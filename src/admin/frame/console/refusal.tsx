/** @jsxImportSource hono/jsx */
import type { Refusal } from "../../../refusal.ts";
import type { Page } from "./page.tsx";
import { RefusalNotice } from "./remedies.tsx";
import type { Visit } from "./visit.ts";

/** The page that says why a request was refused. */
export function refusalPage(refusal: Refusal, may: Visit["may"]): Page {
  return {
    title: "Not possible",
    code: refusal.code,
    isNarrow: true,
    body: (
      <>
        <RefusalNotice refusal={refusal} may={may} />
        <p>
          <a href="/console/">Go to the first page</a>
        </p>
      </>
    ),
  };
}
