/** @jsxImportSource hono/jsx */
import { cutText, MOST_OF_NAME } from "../cut_text.ts";
import { AccountLink, Foreign } from "./values.tsx";

interface CustomerProps {
  readonly userId: string;
  readonly email: string;
  /** Names of the account and the license, each on a line of its own; empty texts are left out. */
  readonly more: readonly string[];
}

/** The account of a row in a list. */
export function Customer({ userId, email, more }: CustomerProps) {
  return (
    <>
      <AccountLink id={userId} email={email} />
      {more
        .filter((text) => text !== "")
        .map((text) => (
          <span class="more">
            <Foreign text={cutText(text, MOST_OF_NAME)} />
          </span>
        ))}
    </>
  );
}
