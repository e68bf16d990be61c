/** @jsxImportSource hono/jsx */
/** What goes on working when a key is ended, on the pages of the console. */
import { describeRemains } from "../../licensing/signed_licenses/mod.ts";
import { Ago } from "../frame/console/components/values.tsx";
import type { ActedKey } from "./key_action.ts";

/** Says what stays of a key whose page was read; empty if nothing does. */
export function remainsOf({ key: { maxMachines }, remains, taken }: ActedKey): string {
  return describeRemains({ files: remains?.files ?? [], maxMachines, taken });
}

/** Says before a change of a key when it was last used and what stays, with a link to the signed licenses. */
export function Remains({ of, now }: { readonly of: ActedKey; readonly now: Date }) {
  const { key, remains } = of;
  if (remains === undefined) return null;
  return (
    <p>
      Last used: <Ago at={key.lastUsedAt} now={now} />. <RemainsAfter of={of} />
    </p>
  );
}

/** Says what stays of a key, with a link to the signed licenses. */
export function RemainsAfter({ of }: { readonly of: ActedKey }) {
  return (
    <>
      {remainsOf(of)}{" "}
      {of.remains?.files.length ? (
        <a href={`/console/licenses/${of.key.licenseId}#files`}>Signed licenses that still work</a>
      ) : null}
    </>
  );
}
