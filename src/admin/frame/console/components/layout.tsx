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

export interface NoticeProps {
  readonly kind: "good" | "warning" | "bad";
  readonly children?: Child;
}

/** A sentence that stands out. A `bad` one is read out and gets the focus when the page opens. */
export function Notice({ kind, children }: NoticeProps) {
  const isBad = kind === "bad";
  return (
    <div
      class={`notice ${kind}`}
      role={isBad ? "alert" : undefined}
      tabindex={isBad ? -1 : undefined}
      autofocus={isBad}
    >
      {children}
    </div>
  );
}

interface CopyableProps {
  readonly id: string;
  readonly text: string;
  /** What the button says, such as `Copy the key`. */
  readonly label: string;
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

/** A text to copy: one click selects it. The page's script `copy` shows the button. */
export function Copyable({ id, text, label }: CopyableProps) {
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
