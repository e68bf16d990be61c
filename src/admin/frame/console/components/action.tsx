/** @jsxImportSource hono/jsx */
/**
 * The actions that a page offers. An action opens in place, without script, and asks for the fields of the change. At
 * most one action of a page is open.
 */
import { refuse } from "../../../../base/refusal.ts";
import { refuseOldProof } from "../../../../operators/mod.ts";
import { type Action, isOffered, originOf } from "../action.ts";
import { fieldsOf, type RefusedForm } from "../refused_form.ts";
import { RefusalNotice } from "../remedies.tsx";
import { formIdOf, OPEN, ORIGIN, toOpenForm } from "../route.ts";
import type { Visit } from "../visit.ts";
import { TextField } from "./form.tsx";

interface ActionsProps<Thing> {
  readonly actions: readonly Action<Thing>[];
  /** The address of the page, below `/console`. */
  readonly address: string;
  readonly of: Thing;
  readonly name?: string | undefined;
  readonly visit: Visit;
  /** The form that was refused: its action is open and says why. */
  readonly refused: RefusedForm | undefined;
}

/** The actions of a page, each group below its title. The parameter `open` of its address opens one of them. */
export function Actions<Thing>({ actions, ...props }: ActionsProps<Thing>) {
  const offered = actions.filter((action) => isOffered(action, props));
  if (offered.length === 0) return null;
  return (
    <div class="changes">
      {[...Map.groupBy(offered, ({ group }) => group)].map(([title, group]) => (
        <section>
          {title && <h2>{title}</h2>}
          <div>
            {group.map((action) => (
              <ActionForm {...props} action={action} />
            ))}
          </div>
        </section>
      ))}
    </div>
  );
}

/** An action that opens in place. Its last field is the reason, which the audit log keeps. */
function ActionForm<Thing>({
  action,
  address,
  of,
  visit,
  ...props
}: Omit<ActionsProps<Thing>, "actions"> & { readonly action: Action<Thing> }) {
  const { name, label, group, submit, isFinal, isRare, isDownload, needsFreshProof, needsReason, repeat } =
    action;
  const { Form } = action;
  const origin = originOf(action, { of, visit });
  const refused = props.refused?.action === name ? props.refused : undefined;
  const refusal = refused?.refusal ?? (needsFreshProof && refuseOldProof(visit.session, visit.now));
  const field = fieldsOf(name, refused);
  const Title = group === undefined ? "h2" : "h3";
  const isOpen = (props.refused?.action ?? visit.query.get(OPEN)) === name;
  if (isRare && !isOpen)
    return (
      <a class="opens" href={`/console${toOpenForm(address, name, origin)}`}>
        {`${label}…`}
      </a>
    );
  return (
    <details class="action" name="action" id={name} open={isOpen}>
      <summary class={isFinal && "ending"}>{`${label}…`}</summary>
      {/* Links go to the form, because the style gives `details` no box that a browser could scroll to. */}
      <form
        id={formIdOf(name)}
        method="post"
        action={`/console${address}/${name}`}
        novalidate
        data-download={isDownload ? "" : undefined}
        data-kept={isFinal ? undefined : ""}
      >
        <Title>{`${label} ${props.name ?? ""}`}</Title>
        {refusal && (
          <RefusalNotice
            refusal={refusal}
            may={visit.may}
            kind={refused ? "bad" : "warning"}
            page={toOpenForm(address, name, origin)}
            isOfForm
            provider={visit.options.provider?.name}
          />
        )}
        <Form of={of} field={field} now={visit.now} />
        {repeat && (
          <TextField
            {...field("repeat")}
            label={`Type ${repeat.what} to confirm: ${repeat.textOf(of)}`}
            autocapitalize="off"
            required
          />
        )}
        <TextField
          {...field("reason")}
          label={needsReason ? "Reason" : "Reason (optional)"}
          hint="The audit log keeps it."
          required={needsReason === true}
        />
        {origin && <input type="hidden" name={ORIGIN} value={origin} />}
        <div class="actions">
          <button type="submit" class={isFinal ? "final" : undefined}>
            {typeof submit === "string" ? submit : submit(of)}
          </button>
          <a href={`/console${origin ?? address}`} data-closes={origin === undefined ? "" : undefined}>
            Cancel
          </a>
        </div>
      </form>
    </details>
  );
}

/** Says why the last action was refused, if the page does not offer it any more: otherwise its open form says why. */
export function LastRefusal<Thing>({ actions, of, visit, refused }: ActionsProps<Thing>) {
  const isFormShown = actions.some(
    (action) => action.name === refused?.action && isOffered(action, { of, visit }),
  );
  if (refused === undefined || isFormShown) return null;
  const { code, fields = [] } = refused.refusal;
  const why = fields.map(({ error }) => error).join("; ");
  // No field is there that could be marked.
  const refusal = why === "" ? refused.refusal : refuse(code, `Nothing was changed: ${why}`);
  return <RefusalNotice refusal={refusal} may={visit.may} />;
}
