/** @jsxImportSource hono/jsx */
import { Foreign } from "./values.tsx";

/** A value that is longer is cut: rows of the audit log can contain texts of others. */
const MAX_LENGTH = 200;

/** What a row of the audit log changed: each value before and after, but not the values that stayed. */
export function Changes({ before, after }: { readonly before: unknown; readonly after: unknown }) {
  const [old, now] = [before, after].map(toFields) as [Fields, Fields];
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])];
  const changed = names.filter((name) => toText(old[name]) !== toText(now[name]));
  if (changed.length === 0) return <span class="muted">–</span>;
  return (
    <ul class="values">
      {changed.map((name) => (
        <li>
          <span class="muted">{name.replaceAll("_", " ")}:</span>{" "}
          {name in old && (
            <>
              from <Foreign text={toText(old[name])} /> to{" "}
            </>
          )}
          {name in now ? <Foreign text={toText(now[name])} /> : "removed"}
        </li>
      ))}
    </ul>
  );
}

type Fields = Readonly<Record<string, unknown>>;

function toFields(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function toText(value: unknown): string {
  if (value === null || value === undefined) return "none";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  // PostgreSQL writes instants in this form; the other pages show them to the minute.
  const [, day, minute] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(?:\.\d+)?\+00:00$/.exec(text) ?? [];
  if (day !== undefined) return day === "9999-12-31" ? "never" : `${day} ${minute}`;
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text;
}
