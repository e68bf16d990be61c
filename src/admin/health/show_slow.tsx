/** @jsxImportSource hono/jsx */
/** How pages show which endpoints are slow. */
import { SLOW_RULE } from "../../usage/latency/mod.ts";
import { Notice } from "../frame/console/components/layout.tsx";
import { pathTo } from "./latency_table.tsx";
import { pathToSlow, type Slow } from "./slow.ts";

/** The link beside the sentence of the health; nothing if no endpoint is slow. */
export function ShowSlow({ slow }: { readonly slow: readonly Slow[] }) {
  const path = pathToSlow(slow);
  return path ? <a href={path}>Show what is slow</a> : null;
}

interface SlowNoticeProps {
  readonly slow: readonly Slow[];
  /** The end of the time of the page; undefined for the latest. */
  readonly to: Date | undefined;
  /** True if the page is that of the endpoint, so that no link leads there. */
  readonly isOne: boolean;
}

/** The headline of the page Latency; nothing if no endpoint is slow at the end of its time. */
export function SlowNotice({ slow, to, isOne }: SlowNoticeProps) {
  if (slow.length === 0) return null;
  return (
    <Notice kind="warning">
      {slow.map(({ endpoint, says }) => {
        const sentence = `${says.charAt(0).toUpperCase()}${says.slice(1)}.`;
        return <p>{isOne ? <b>{sentence}</b> : <a href={pathTo({ endpoint, to })}>{sentence}</a>}</p>;
      })}
      <p class="hint">{`${SLOW_RULE}.`}</p>
    </Notice>
  );
}
