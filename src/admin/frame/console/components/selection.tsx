/** @jsxImportSource hono/jsx */
/** What pages about a selection of a list share. Their forms keep the ids, so what was counted is what is changed. */
import type { Page } from "../page.tsx";
import { toAddress } from "./list.tsx";

interface SelectionProps {
  /** The address of the page below `/console`. */
  readonly address: string;
  /** The fields that say what is selected. */
  readonly fields: Readonly<Record<string, string>>;
  /** The action whose form is then open. */
  readonly open?: string;
}

/** The form that opens the page with a selection again. The script `keep` keeps its fields during a login. */
export function SelectionForm({ address, fields, open }: SelectionProps) {
  return (
    <form method="post" action={toAddress(`/console${address}`, { open })} data-selection="" hidden>
      <HiddenFields of={Object.entries(fields)} />
    </form>
  );
}

/** Fields that a form only passes on. */
export function HiddenFields({ of }: { readonly of: Iterable<readonly [name: string, value: string]> }) {
  return [...of].map(([name, value]) => <input type="hidden" name={name} value={value} />);
}

interface AgainProps extends SelectionProps {
  readonly title: string;
  /** What a row of the list is, such as `key`. */
  readonly noun: string;
  readonly list: string;
}

/** The page to which a login leads. Its script selects the same rows again, if this tab has them. */
export function selectAgainPage({ title, noun, list, ...selection }: AgainProps): Page {
  return {
    title,
    isNarrow: true,
    body: (
      <>
        <p>{`No ${noun} is selected: select ${noun}s of the list.`}</p>
        <SelectionForm {...selection} />
        <p>
          <a href={`/console${list}`}>{`Back to the ${noun}s`}</a>
        </p>
      </>
    ),
  };
}
