/** @jsxImportSource hono/jsx */

import type { Refusal } from "../../../base/refusal.ts";
import type { Provider } from "../../../operators/identity/mod.ts";
import { MOST_OF_CODE } from "../../../operators/mod.ts";
import { connectedAttributes, Field } from "./components/form.tsx";
import { Notice } from "./components/layout.tsx";
import type { Page } from "./page.tsx";

interface EnterOptions {
  /** The address of the page to which the login leads. */
  readonly to: string;
  /** The identity provider, if people can log in there. */
  readonly provider: Pick<Provider, "name"> | undefined;
  /** Why the last code did not work. */
  readonly refusal?: Refusal;
  /** Why the login at the provider did not work. */
  readonly providerRefusal?: Refusal;
  /** Whether the browser has the cookie of a session that ended. */
  readonly hasEnded?: boolean;
  /** Whether the page that asks for the login needs a fresh proof of who the operator is. */
  readonly needsFreshProof?: boolean | undefined;
  /** Whether the operator has just logged out. */
  readonly isLoggedOut?: boolean;
  /** The operator of the session that the browser has. */
  readonly loggedIn?: string | undefined;
  /** Given to ask before that session ends: its operator, and the code that was entered. */
  readonly replaces?: { readonly operator: string; readonly code: string };
}

/** The page on which an operator enters a login code. */
export function enterPage(options: EnterOptions): Page {
  const { provider, to, refusal, providerRefusal, replaces, hasEnded, needsFreshProof, isLoggedOut } =
    options;
  // Only the provider knows who will log in, so the page tells beforehand whose session ends.
  const ends = replaces?.operator ?? (provider && !needsFreshProof ? options.loggedIn : undefined);
  const isAtProvider = provider !== undefined && replaces === undefined;
  const failed = refusal ?? providerRefusal;
  const error = refusal && `${refusal.sentence}.`;
  const command = `claviger operators login ${(needsFreshProof && options.loggedIn) || "NAME"}`;
  const hint = `The command ${command} prints it on the host. It works once, for ten minutes.`;
  const field = { name: "code", label: "Login code", hint, error, autofocus: !isAtProvider };
  return {
    title: "Log in",
    script: ["enter", "frame"],
    isNarrow: true,
    ...(failed && { code: failed.code, retryAfterSeconds: failed.retryAfterSeconds }),
    body: (
      <>
        {isLoggedOut && <Notice kind="good">You are logged out.</Notice>}
        {hasEnded && <Notice kind="warning">Your session has ended: log in again.</Notice>}
        {needsFreshProof && <Notice kind="warning">This needs a login of the last five minutes.</Notice>}
        {providerRefusal && <Notice kind="bad">{providerRefusal.sentence}.</Notice>}
        {ends && (
          <Notice kind="warning">
            <b>{ends}</b> is logged in with this browser. The login ends that session.{" "}
            <a href={to}>Keep it</a>
          </Notice>
        )}
        {isAtProvider && (
          <p>
            <a
              class="button"
              href={`/console/enter/provider?${new URLSearchParams({ to, ...(needsFreshProof && { fresh: "1" }) })}`}
              autofocus={failed === undefined}
            >
              Log in with {provider.name}
            </a>
          </p>
        )}
        {isAtProvider && (isLoggedOut || providerRefusal) && (
          <p>
            <a href="/console/enter/leave">
              Log out of {provider.name}
              {isLoggedOut ? ", too" : ", to log in there as somebody else"}
            </a>
          </p>
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
              {...connectedAttributes(field)}
            />
          </Field>
          <button type="submit">Log in</button>
        </form>
      </>
    ),
  };
}
