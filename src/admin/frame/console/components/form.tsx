/** @jsxImportSource hono/jsx */
/** Fields of forms. */
import type { Child } from "hono/jsx";
import { NO_KEY_PATTERN } from "../../../../base/secrets/mod.ts";

interface FieldProps {
  readonly label: string;
  readonly name: string;
  /** By default the name; a page with several forms needs other ids. */
  readonly id?: string | undefined;
  readonly hint?: string | undefined;
  readonly error?: string | undefined;
  readonly autofocus?: boolean;
  readonly children?: Child;
}

/** A label above its control, with a hint and an error below. The control has the id, and `connectedAttributes`. */
export function Field({ label, name, id = name, hint, error, children }: FieldProps) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children}
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      <FieldError id={id} error={error} />
    </div>
  );
}

/** Why the value of a field was refused. */
function FieldError({ id, error }: { readonly id: string } & Pick<FieldProps, "error">) {
  if (error === undefined) return null;
  return (
    <p class="error" id={`${id}-error`}>
      {error}
    </p>
  );
}

/** The attributes that connect a control with its hint and its error; the first wrong one gets the focus. */
export function connectedAttributes({ name, id = name, hint, error, autofocus }: Omit<FieldProps, "label">) {
  const ids = [hint && `${id}-hint`, error && `${id}-error`].filter((id) => id !== undefined);
  return {
    "aria-describedby": ids.length === 0 ? undefined : ids.join(" "),
    "aria-invalid": error === undefined ? undefined : ("true" as const),
    autofocus: autofocus || error !== undefined,
  };
}

interface TextFieldProps extends Omit<FieldProps, "children"> {
  readonly value?: string | undefined;
  readonly type?: "email" | "search" | undefined;
  readonly required?: boolean;
  readonly inputmode?: "numeric" | "email";
  readonly autocapitalize?: "off";
}

/** What the search of lists finds. */
export const SEARCH_HINT = "An account by words; a key by its start or end; an id or an external id";

/**
 * A field of one line. It bounds no length: a browser would cut a pasted text without a word, and counts an emoji as
 * two characters.
 */
export function TextField({ value, type, required, inputmode, autocapitalize, ...field }: TextFieldProps) {
  return (
    <Field {...field}>
      <input
        id={field.id ?? field.name}
        name={field.name}
        type={type}
        value={value || undefined}
        required={required}
        inputmode={inputmode}
        autocapitalize={autocapitalize}
        autocomplete="off"
        // A list has its search in the address, so the browser does not send a key there. The box of the frame takes it.
        {...(type === "search" && {
          pattern: NO_KEY_PATTERN,
          title: "A whole key is found by the box above the page",
        })}
        {...connectedAttributes(field)}
      />
    </Field>
  );
}

interface Option {
  readonly value: string;
  readonly label: string;
}

/** Returns values as the options of a field. */
export function optionsOf<Value extends string>(
  values: readonly Value[],
  toLabel: (value: Value) => string = (value) => value,
): readonly Option[] {
  return values.map((value) => ({ value, label: toLabel(value) }));
}

/** Returns the choices of a condition: any value, or one of these. */
export function choicesOf<Value extends string>(
  values: readonly Value[],
  toLabel?: (value: Value) => string,
): readonly Option[] {
  return [{ value: "", label: "any" }, ...optionsOf(values, toLabel)];
}

interface SelectProps extends Omit<FieldProps, "children"> {
  readonly value: string | undefined;
  readonly choices: readonly Option[];
  readonly required?: boolean;
}

/**
 * A field whose value is one of a few. A value of an address that is none of them is shown, too. The first one needs no mark to
 * be selected.
 */
export function Select({ value, choices, required, ...field }: SelectProps) {
  const isOther = value && !choices.some((choice) => choice.value === value);
  return (
    <Field {...field}>
      <select
        id={field.id ?? field.name}
        name={field.name}
        required={required}
        {...connectedAttributes(field)}
      >
        {required && !value && <option value="">choose</option>}
        {[...choices, ...(isOther ? [{ value, label: value }] : [])].map((choice, index) => (
          <option value={choice.value} selected={index > 0 && choice.value === value}>
            {choice.label}
          </option>
        ))}
      </select>
    </Field>
  );
}

interface ChoicesProps extends FieldProps {
  readonly value: string | undefined;
  readonly choices: readonly Pick<ChoiceProps, "value" | "label">[];
}

/** Check boxes. Their value has what is checked, separated by commas. If it is wrong, the first box gets the focus. */
export function CheckBoxes({ value = "", ...field }: ChoicesProps) {
  return <Choices {...field} type="checkbox" checked={value.split(",")} />;
}

/** Radio buttons, of which one is chosen. If the choice is wrong, the first button gets the focus. */
export function RadioButtons({ value = "", ...field }: ChoicesProps) {
  return <Choices {...field} type="radio" checked={[value]} />;
}

function Choices({
  label,
  name,
  id = name,
  hint,
  error,
  choices,
  type,
  checked,
  children,
}: Omit<ChoicesProps, "value"> &
  Pick<ChoiceProps, "type"> & {
    readonly checked: readonly string[];
  }) {
  const { autofocus, ...described } = connectedAttributes({ name, id, hint, error });
  return (
    <fieldset {...described}>
      <legend>{label}</legend>
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      <FieldError id={id} error={error} />
      {choices.map((each) => (
        <Choice
          type={type}
          name={name}
          {...each}
          checked={checked.includes(each.value)}
          autofocus={autofocus}
        />
      ))}
      {children}
    </fieldset>
  );
}

/** A box of its own, with the reason for which the form was refused. */
export function CheckBox({
  label,
  value,
  ...field
}: Pick<TextFieldProps, "label" | "name" | "id" | "value" | "error" | "autofocus">) {
  return (
    <div class="field">
      <Choice
        type="checkbox"
        id={field.id ?? field.name}
        name={field.name}
        value="yes"
        label={label}
        checked={value === "yes"}
        {...connectedAttributes(field)}
      />
      <FieldError id={field.id ?? field.name} error={field.error} />
    </div>
  );
}

interface ChoiceProps {
  readonly type: "radio" | "checkbox";
  readonly name: string;
  readonly value: string;
  readonly label: Child;
  readonly checked: boolean;
  readonly id?: string;
  readonly autofocus?: boolean;
  readonly "aria-invalid"?: "true" | undefined;
  readonly "aria-describedby"?: string | undefined;
}

/** A check box or a radio button next to its label. */
export function Choice({ label, ...input }: ChoiceProps) {
  return (
    <label>
      <input {...input} /> {label}
    </label>
  );
}
