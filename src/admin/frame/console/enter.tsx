/** @jsxImportSource hono/jsx */
import { MOST_OF_CODE } from "../../../operators/mod.ts";
import type { Refusal } from "../../../refusal.ts";
import { describe, Field } from "./components/form.tsx";
import { Notice } from "./components/layout.tsx";
import type { Page } from "./page.tsx";

const HINT =
  "The command claviger operators login NAME prints it on the host. It works once, for ten minutes.";

interface EnterOptions {
  /** The address of the page to which the login leads. */
  readonly to: string;
  /** Why the last code did not work. */
  readonly refusal?: Refusal;
  /** Whether the browser has the cookie of a session that ended. */
  readonly hasEnded?: boolean;
  /** Whether the page that asks for the login needs a fresh proof of who the operator is. */
  readonly needsFreshProof?: boolean;
  /** Whether the operator has just logged out. */
  readonly isLoggedOut?: boolean;
  /** Given if the login would end a session: the operator of that session, and the code that was entered. */
  readonly replaces?: { readonly operator: string; readonly code: string };
}

/** The page on which an operator enters a login code. */
export function enterPage(options: EnterOptions): Page {
  const { to, refusal, replaces, hasEnded, needsFreshProof, isLoggedOut } = options;
  const error = refusal && `${refusal.sentence}.`;
  const field = { name: "code", label: "Login code", hint: HINT, error, autofocus: true };
  return {
    title: "Log in",
    script: ["enter", "keep"],
    isNarrow: true,
    ...(refusal && { code: refusal.code }),
    body: (
      <>
        {isLoggedOut && <Notice kind="good">You are logged out.</Notice>}
        {hasEnded && <Notice kind="warning">Your session has ended: log in again.</Notice>}
        {needsFreshProof && <Notice kind="warning">This needs a login of the last five minutes.</Notice>}
        {replaces && (
          <Notice kind="warning">
            <b>{replaces.operator}</b> is logged in with this browser. The login ends that session.{" "}
            <a href={to}>Keep it</a>
          </Notice>
        )}
        <form method="post" action="/console/enter">
          <input type="hidden" name="to" value={to} />
          {replaces && <input type="hidden" name="replaces" value={replaces.operator} />}
          <Field {...field}>
            <input
              id={field.name}
              name={field.name}
              class="code"
              value={replaces?.code.slice(0, MOST_OF_CODE)}
              required
              maxlength={MOST_OF_CODE}
              autocomplete="off"
              autocapitalize="none"
              spellcheck={false}
              {...describe(field)}
            />
          </Field>
          <button type="submit">Log in</button>
        </form>
      </>
    ),
  };
}
