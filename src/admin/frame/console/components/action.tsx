/** @jsxImportSource hono/jsx */
/**
 * Changes that a page offers. An action opens in place, without script, and asks for the fields of the change. At most
 * one action of a page is open.
 */
import type { Child } from "hono/jsx";
import { type Attempt, MOST_ENTERED } from "../attempt.ts";
import { TextField } from "./form.tsx";
import { Notice } from "./layout.tsx";
import { Foreign } from "./values.tsx";

/** The actions of a page, next to each other. */
export function Actions({ children }: { readonly children?: Child }) {
  return <div class="changes">{children}</div>;
}

interface ActionProps {
  /** Tells the actions of a page apart, such as `suspend`. */
  readonly name: string;
  /** The text that opens the action, such as `Suspend`. */
  readonly label: string;
  /** The page of the action. Its form is sent to the name below this path. */
  readonly path: string;
  /** The button that makes the change, such as `Suspend the key`. */
  readonly submit: string;
  /** The form that was refused last: its action is open and says why. */
  readonly attempt: Attempt | undefined;
  /** Whether it is open without a refusal, too. */
  readonly isOpen?: boolean;
  /** The change cannot be undone. */
  readonly isFinal?: boolean;
  /** The text that people must type, so that nobody makes a final change by mistake. */
  readonly repeat?: RepeatedText | undefined;
  /** The answer is a file, so the page stays. */
  readonly isDownload?: boolean;
  /** The description of the change, and the fields that it needs besides `repeat` and the reason. */
  readonly children?: Child;
}

interface RepeatedText {
  readonly text: string;
  /** Such as `the key id`. */
  readonly what: string;
}

/**
 * A change that opens in place. Its fields get their attributes from `fieldsOf`. The last field is the reason, which the
 * audit log keeps.
 */
export function Action({
  name,
  label,
  path,
  submit,
  attempt,
  isOpen = false,
  isFinal,
  repeat,
  isDownload,
  children,
}: ActionProps) {
  const field = fieldsOf(name, attempt);
  const refused = attempt?.action === name ? attempt : undefined;
  return (
    <details class="action" name="action" id={name} open={isOpen || refused !== undefined}>
      <summary>{`${label}…`}</summary>
      {/* Links go to the form, because the style gives `details` no box that a browser could scroll to. */}
      <form
        id={formIdOf(name)}
        method="post"
        action={`${path}/${name}`}
        novalidate
        data-download={isDownload ? "" : undefined}
      >
        {refused && (
          <Notice kind="bad">
            <Foreign text={`${refused.sentence}.`} />
          </Notice>
        )}
        {children}
        {repeat && (
          <TextField
            {...field("repeat")}
            label={`Type ${repeat.what} to confirm: ${repeat.text}`}
            required
            maxlength={254}
          />
        )}
        <TextField
          {...field("reason")}
          label="Reason (optional)"
          hint="The audit log keeps it."
          maxlength={2_000}
        />
        <button type="submit" class={isFinal ? "final" : undefined}>
          {submit}
        </button>
      </form>
    </details>
  );
}

/** Returns the id of an action's form, for links. */
export function formIdOf(action: string): string {
  return `${action}-form`;
}

/**
 * Returns a function that gives a field of an action its name, its id and, after a refusal, its error and the entered
 * value.
 */
export function fieldsOf(action: string, attempt: Attempt | undefined) {
  const refused = attempt?.action === action ? attempt : undefined;
  return (name: string, value?: string) => ({
    name,
    id: `${action}-${name}`,
    value: refused === undefined ? value : refused.form.get(name)?.slice(0, MOST_ENTERED),
    error: refused?.errors[name],
  });
}

/** The sentence about a change that was made: the page's address has its word. Unknown words say nothing. */
export function Done({ query, sentences }: DoneProps) {
  const word = query.get("done") ?? "";
  return Object.hasOwn(sentences, word) ? (
    <div role="status">
      <Notice kind="good">{sentences[word]}</Notice>
    </div>
  ) : null;
}

interface DoneProps {
  readonly query: URLSearchParams;
  readonly sentences: Readonly<Record<string, string>>;
}
