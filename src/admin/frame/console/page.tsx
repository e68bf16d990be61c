/** @jsxImportSource hono/jsx */
/** The frame of every page: head, menu, and who is logged in. */
import type { Child } from "hono/jsx";
import type { Code } from "../../../base/refusal.ts";
import type { Session } from "../../../operators/mod.ts";
import { type Script, scriptPath, stylePath } from "./assets.ts";
import { mayUse, type Need } from "./may.ts";

export interface Page {
  /** The heading above the body, and the title of the document. */
  readonly title: string;
  /** What stands before the title in that of the document, such as `Key …0d2e`: the heading alone names the customer. */
  readonly what?: string;
  /** The line below the heading, which says what of the customer it is. */
  readonly under?: Child;
  /** What stands beside the heading, such as the main action. */
  readonly beside?: Child;
  readonly body: Child;
  /** True for a form or a message, which would be hard to read in a wide window. */
  readonly isNarrow?: true;
  readonly script?: Script | readonly Script[];
  /** The address to which the browser goes on by itself. */
  readonly goesTo?: string;
  /** What was searched. */
  readonly searched?: string;
  /** Set if the page says why a request was refused; it gives the status. */
  readonly code?: Code;
  /** After how many seconds the same request may be sent again. */
  readonly retryAfterSeconds?: number | undefined;
}

/** Where a page is shown. */
interface Place {
  /** The entries of the menu; an operator sees those that the role may open. Paths are below `/console`. */
  readonly menu: readonly { readonly label: string; readonly path: string; readonly scope: Need }[];
  /** Undefined before the login: then the page has no menu. */
  readonly session: Session | undefined;
  /** The path of the request. */
  readonly path: string;
}

/** Renders a page as HTML. */
export function renderPage(page: Page, place: Place): string {
  return `<!doctype html>${<Frame page={page} place={place} />}`;
}

function Frame({ page, place: { session, ...place } }: { readonly page: Page; readonly place: Place }) {
  const { title, what, under, beside, body, isNarrow, script, searched, goesTo } = page;
  const content = (
    <>
      <div id="title" tabindex={-1}>
        <h1>
          <bdi>{title}</bdi>
        </h1>
        {beside}
        {under && <p class="under">{under}</p>}
      </div>
      {body}
    </>
  );
  return (
    <html lang="en">
      <head>
        <title>{`${what === undefined ? "" : `${what}: `}${title} – Claviger`}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        {goesTo && <meta http-equiv="refresh" content={`0; url=${goesTo}`} />}
        <link rel="stylesheet" href={stylePath} />
        {[session ? ("frame" as const) : [], script ?? []].flat().map((name) => (
          <script type="module" src={scriptPath(name)} />
        ))}
      </head>
      <body>
        <a class="skip-link" href="#main">
          Skip to the content
        </a>
        <header>
          <span class="product">Claviger</span>
          {session && <SearchBox text={searched} />}
          {session && <Menu session={session} {...place} />}
        </header>
        <main id="main" tabindex={-1}>
          {isNarrow ? <section class="narrow">{content}</section> : content}
        </main>
        {session && <footer>Days and times are in UTC.</footer>}
      </body>
    </html>
  );
}

/** The search box. Its text is sent by POST, because a key must not be in an address, and no browser keeps it. */
function SearchBox({ text }: { readonly text: string | undefined }) {
  return (
    <search>
      <form method="post" action="/console/search">
        <input
          id="find"
          name="q"
          type="search"
          value={text}
          aria-label="Find anything"
          aria-keyshortcuts="/ Control+K"
          placeholder="Key, e-mail"
          autocomplete="off"
          spellcheck={false}
        />
        <button type="submit">Find</button>
      </form>
    </search>
  );
}

function Menu({ session, menu, path }: Place & { readonly session: Session }) {
  const entries = menu.filter(({ scope }) => mayUse(session.role, scope));
  const here = entries.find((entry) => currentOf(`/console${entry.path}`, path));
  return (
    <>
      <form class="who" method="post" action="/console/logout">
        <span>
          <b title={session.operator}>{session.operator}</b> <span class="muted">{session.role}</span>
        </span>
        <button type="submit" class="quiet">
          Log out
        </button>
      </form>
      <nav aria-label="Menu">
        <details>
          <summary>{["Menu", here?.label].filter(Boolean).join(": ")}</summary>
          <ul>
            {entries.map((entry) => (
              <li>
                <a href={`/console${entry.path}`} aria-current={currentOf(`/console${entry.path}`, path)}>
                  {entry.label}
                </a>
              </li>
            ))}
          </ul>
        </details>
      </nav>
    </>
  );
}

/** `page` for the page that is shown, `true` for the entry that it belongs to. */
function currentOf(entry: string, path: string): "page" | "true" | undefined {
  if (path === entry) return "page";
  return path.startsWith(`${entry}/`) ? "true" : undefined;
}
