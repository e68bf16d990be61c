/** @jsxImportSource hono/jsx */
/**
 * How pages say why something was refused. A remedy is a link: to a page, or to a form that is open there.
 */
import type { Child } from "hono/jsx";
import type { Refusal } from "../../../base/refusal.ts";
import type { RemedyName } from "../../../base/remedy.ts";
import { Notice, type NoticeProps } from "./components/layout.tsx";
import { Foreign } from "./components/values.tsx";
import type { Need } from "./may.ts";
import type { Page } from "./page.tsx";
import { toFreshLogin, toOpenForm } from "./route.ts";
import type { Visit } from "./visit.ts";

interface Link {
  readonly scope: Need;
  readonly label: string;
  /** Returns the address below `/console`; `page` is that of the page with the link. */
  to(of: string, page: string): string;
}

const toKeyForm = (action: string) => (id: string) => toOpenForm(`/keys/${id}`, action);
const OPERATORS: Link = { scope: "admin", label: "Show all operators", to: () => "/access" };

/** A remedy without a link has no page: only a command or the API can do it. */
const LINKS: Readonly<Partial<Record<RemedyName, Link>>> = {
  list_keys: { scope: "keys:read", label: "Show all keys", to: () => "/keys" },
  select_keys: { scope: "keys:read", label: "Back to the keys", to: (conditions) => `/keys?${conditions}` },
  replace_key: { scope: "keys:manage", label: "Replace the key", to: toKeyForm("replace") },
  rotate_instead: { scope: "keys:manage", label: "Rotate it", to: toKeyForm("rotate") },
  resume_key: { scope: "keys:manage", label: "Resume it", to: toKeyForm("resume") },
  renew_license: { scope: "keys:manage", label: "Renew the license", to: toKeyForm("renew") },
  rotate_replacement: { scope: "keys:manage", label: "Rotate that one", to: toKeyForm("rotate") },
  revoke_keys_of_account: { scope: "keys:read", label: "Show its keys", to: (id) => `/keys?account=${id}` },
  change_account: {
    scope: "accounts:read",
    label: "Show the account",
    to: (email) => `/accounts?${new URLSearchParams({ search: email })}`,
  },
  list_operators: OPERATORS,
  appoint_admin: OPERATORS,
  log_in_again: { scope: "any", label: "Log in again", to: (_, page) => toFreshLogin(page) },
  issue_token: { scope: "admin", label: "Issue a token", to: () => toOpenForm("/access", "issue-token") },
  list_models: { scope: "models:read", label: "Show all models", to: () => "/models" },
  list_tokens: { scope: "admin", label: "Show all tokens", to: () => "/access" },
};

interface Props extends Pick<Visit, "may"> {
  readonly refusal: Refusal;
  /** `warning`: it would be refused. By default it was. */
  readonly kind?: NoticeProps["kind"];
  /** The address of the page below `/console`, to which a new login leads back. */
  readonly page?: string;
  /** Its form is on the page, too: if a field is wrong, that field gets the focus and says why. */
  readonly isOfForm?: boolean;
  /** The name of the identity provider, at which people log in again. */
  readonly provider?: string | undefined;
}

/** Says why something is refused, with a link to the remedy if the role may use it. */
export function RefusalNotice({ refusal, may, kind = "bad", page = "/", isOfForm = false, provider }: Props) {
  const { sentence, remedy, fields = [] } = refusal;
  const link = remedy && LINKS[remedy.name];
  return (
    <Notice kind={kind} isAnswer={kind === "bad" && !(isOfForm && fields.length > 0)}>
      <Foreign text={`${sentence}.`} />
      {link && may(link.scope) && (
        <>
          {" "}
          <a href={`/console${link.to(remedy.of ?? "", page)}`}>{link.label}</a>
          {remedy.name === "log_in_again" && (
            <> with {provider ?? <code>claviger operators login {remedy.of}</code>}</>
          )}
        </>
      )}
    </Notice>
  );
}

/** The page that says why a request was refused. */
export function refusalPage(refusal: Refusal, may: Visit["may"]): Page {
  return {
    title: "Not possible",
    code: refusal.code,
    retryAfterSeconds: refusal.retryAfterSeconds,
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

/** The page whose conditions cannot be read: their form, and why nothing else is shown. */
export function unreadPage(
  { code, sentence }: Refusal,
  { title, filters }: Pick<Page, "title"> & { readonly filters: Child },
): Page {
  return {
    title,
    code,
    body: (
      <>
        {filters}
        <Notice kind="warning">
          <Foreign text={`${sentence}.`} />
        </Notice>
      </>
    ),
  };
}
