/** @jsxImportSource hono/jsx */
/** The parts of a page that are neither forms nor tables. */
import type { Child } from "hono/jsx";

/** The button that leads to the form which issues a key. */
export function IssueButton({ query = "" }: { readonly query?: string }) {
  return (
    <a class="button" href={`/console/keys/issue${query}`}>
      Issue a key
    </a>
  );
}

interface FoldedProps {
  readonly summary: string;
  readonly isOpen?: boolean;
  readonly children?: Child;
}

/** What few people need of a page: it opens by a click, and is printed. */
export function Folded({ summary, isOpen = false, children }: FoldedProps) {
  return (
    <details class="rest" open={isOpen}>
      <summary>{summary}</summary>
      {children}
    </details>
  );
}

export interface NoticeProps {
  readonly kind: "good" | "done" | "warning" | "bad";
  /** Answers what somebody did, so it is read out and gets the focus; by default `done` and `bad` ones do. */
  readonly isAnswer?: boolean;
  readonly children?: Child;
}

/** A sentence that stands out, if there is one. */
export function Notice({ kind, isAnswer = kind === "done" || kind === "bad", children }: NoticeProps) {
  if (children === undefined || children === null) return null;
  return (
    <div
      class={`notice ${kind === "done" ? "good" : kind}`}
      role={isAnswer ? (kind === "bad" ? "alert" : "status") : undefined}
      tabindex={isAnswer ? -1 : undefined}
      autofocus={isAnswer}
    >
      {children}
    </div>
  );
}

/** An identifier with a button that copies it. The page's script `copy` shows the button. */
export function Id({ id }: { readonly id: string }) {
  return (
    <>
      <code id={id}>{id}</code>{" "}
      <button type="button" class="quiet" data-copies={id} aria-label={`Copy ${id}`} hidden>
        Copy
      </button>
      <span role="status" />
    </>
  );
}

/** A key or a token, which no other page shows. With the script `issued` a reload leads to the page at `next`. */
export function Secret({ what, text, next }: Readonly<Record<"what" | "text" | "next", string>>) {
  return (
    <>
      <p data-reload={next}>
        <b>Copy the {what} now.</b> It is shown only once: only its hash is stored.
      </p>
      <Copyable id={`new-${what}`} text={text} label={`Copy the ${what}`} />
    </>
  );
}

/** A text to copy: one click selects it. The page's script `copy` shows the button. */
export function Copyable({ id, text, label }: Readonly<Record<"id" | "text" | "label", string>>) {
  return (
    <div class="copyable">
      <code id={id} class="key">
        {text}
      </code>
      <button type="button" data-copies={id} hidden>
        {label}
      </button>
      <span role="status" />
    </div>
  );
}
