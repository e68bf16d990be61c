/** @jsxImportSource hono/jsx */
/** Parts of a page with titles of their own. */
import type { Child } from "hono/jsx";
import { renderCount } from "../../../../render_count.ts";
import { Ago } from "./values.tsx";

interface PanelProps {
  readonly title: string;
  /** True for a table of many columns, whose rows become cards in a narrow window. */
  readonly isWide?: boolean;
  readonly children?: Child;
}

/** A part of a page with its own title. */
export function Panel({ title, isWide = false, children }: PanelProps) {
  return (
    <section class={isWide ? "panel" : "panel small"}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

interface AsOfProps {
  readonly at: Date;
  readonly now: Date;
  readonly children?: Child;
}

/** When the numbers above were counted, and where there is more. */
export function AsOf({ at, now, children }: AsOfProps) {
  return (
    <p class="as-of">
      <span>
        As of <Ago at={at} now={now} />
      </span>
      {children && <span>{children}</span>}
    </p>
  );
}

/** A count with a bar, which is full at `of`, so that the counts of a list can be compared at a glance. */
export function Count({ count, of }: Readonly<Record<"count" | "of", number>>) {
  return (
    <>
      {renderCount(count)}
      <svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
        <rect width={of === 0 ? 0 : (count * 100) / of} height="4" />
      </svg>
    </>
  );
}
