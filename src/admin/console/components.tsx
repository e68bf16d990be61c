/** @jsxImportSource hono/jsx */
/** The parts that pages are made of. */
import type { Child } from "hono/jsx";
import { toTimestamp } from "../../calendar.ts";
import { escapeControls } from "../../escape_controls.ts";
import { NEVER_EXPIRES } from "../../licensing/mod.ts";

/** The name of a page, with its main action beside it. */
export function Heading({ title, children }: { readonly title: string; readonly children?: Child }) {
  return (
    <div class="heading">
      <h1>{title}</h1>
      {children}
    </div>
  );
}

interface NoticeProps {
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

interface FieldProps {
  readonly label: string;
  readonly name: string;
  readonly hint?: string;
  readonly error?: string | undefined;
  readonly children?: Child;
}

/** A label above its control, with a hint and an error below. The control has the id of its name, and `describe`. */
export function Field({ label, name, hint, error, children }: FieldProps) {
  return (
    <div class="field">
      <label for={name}>{label}</label>
      {children}
      {hint && (
        <p class="hint" id={`${name}-hint`}>
          {hint}
        </p>
      )}
      <FieldError name={name} error={error} />
    </div>
  );
}

/** Why the value of a field was refused. */
export function FieldError({ name, error }: Pick<FieldProps, "name" | "error">) {
  if (error === undefined) return null;
  return (
    <p class="error" id={`${name}-error`}>
      {error}
    </p>
  );
}

/** The attributes that connect a control with its hint and its error. */
export function describe({ name, hint, error }: Pick<FieldProps, "name" | "hint" | "error">) {
  const ids = [hint && `${name}-hint`, error && `${name}-error`].filter((id) => id !== undefined);
  return {
    "aria-describedby": ids.length === 0 ? undefined : ids.join(" "),
    "aria-invalid": error === undefined ? undefined : ("true" as const),
  };
}

interface TextFieldProps extends Omit<FieldProps, "children"> {
  readonly value?: string | undefined;
  readonly type?: "text" | "email" | "search" | "date" | undefined;
  readonly required?: boolean;
  readonly maxlength?: number;
  readonly inputmode?: "numeric" | "email";
}

/** A field of one line. */
export function TextField({
  value,
  type = "text",
  required,
  maxlength,
  inputmode,
  ...field
}: TextFieldProps) {
  return (
    <Field {...field}>
      <input
        id={field.name}
        name={field.name}
        type={type}
        value={value}
        required={required}
        maxlength={maxlength}
        inputmode={inputmode}
        autocomplete="off"
        {...describe(field)}
      />
    </Field>
  );
}

export interface Choice {
  readonly value: string;
  readonly label: string;
}

interface SelectProps extends Omit<FieldProps, "children"> {
  readonly value: string | undefined;
  readonly choices: readonly Choice[];
  readonly required?: boolean;
}

/** A field whose value is one of a few. */
export function Select({ value, choices, required, ...field }: SelectProps) {
  return (
    <Field {...field}>
      <select id={field.name} name={field.name} required={required} {...describe(field)}>
        {choices.map((choice) => (
          <option value={choice.value} selected={choice.value === value}>
            {choice.label}
          </option>
        ))}
      </select>
    </Field>
  );
}

interface Column<Row> {
  readonly label: string;
  readonly isNumeric?: boolean;
  cell(row: Row): Child;
}

interface TableProps<Row> {
  readonly caption: string;
  /** The first column names the row. */
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
}

/** A table; in a narrow window each row becomes a card. */
export function Table<Row>({ caption, columns, rows }: TableProps<Row>) {
  return (
    <table>
      <caption>{caption}</caption>
      <thead>
        <tr>
          {columns.map(({ label, isNumeric }) => (
            <th scope="col" class={isNumeric ? "number" : undefined}>
              {label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            {columns.map(({ label, isNumeric, cell }, index) =>
              index === 0 ? (
                <th scope="row">{cell(row)}</th>
              ) : (
                <td data-label={label} class={isNumeric ? "number" : undefined}>
                  {cell(row)}
                </td>
              ),
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Names with their values, one below the other. */
export function Facts({ facts }: { readonly facts: readonly (readonly [name: string, value: Child])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/**
 * Text that others wrote: control characters are shown as escapes, and its writing direction does not affect other
 * text.
 */
export function Foreign({ text }: { readonly text: string }) {
  return <bdi>{escapeControls(text)}</bdi>;
}

/** A state as a colored word. */
export function State({ state }: { readonly state: "active" | "suspended" | "revoked" | "expired" }) {
  return <span class={`state ${state}`}>{state}</span>;
}

/** A day, as `2026-11-22`; the exact time appears when the pointer rests on it. */
export function Day({ at }: { readonly at: Date }) {
  if (at.getTime() === NEVER_EXPIRES.getTime()) return "never";
  const exact = toTimestamp(at);
  return (
    <time datetime={exact} title={exact}>
      {exact.slice(0, 10)}
    </time>
  );
}

/** A minute, as `2026-11-22 12:30`. */
export function Minute({ at }: { readonly at: Date }) {
  const exact = toTimestamp(at);
  return <time datetime={exact}>{exact.slice(0, 16).replace("T", " ")}</time>;
}

/** A count with its limit, and a bar for both; null is no limit. */
export function Used({ used, limit }: { readonly used: number; readonly limit: number | null }) {
  const count = used.toLocaleString("en-US");
  if (limit === null) return `${count}, unlimited`;
  const percent = limit === 0 ? 100 : Math.min(100, (used * 100) / limit);
  return (
    <>
      {`${count} of ${limit.toLocaleString("en-US")}`}
      <svg
        class={`bar ${percent >= 90 ? "near" : ""}`}
        viewBox="0 0 100 4"
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        <rect width={percent} height="4" />
      </svg>
    </>
  );
}
