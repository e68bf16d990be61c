/** @jsxImportSource hono/jsx */
/** The action that moves the license of a key to another account. */
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { isErased, type Move, moveLicense } from "../../licensing/mod.ts";
import { action } from "../frame/console/action.ts";
import { CONSENT, Consent } from "../frame/console/components/consent.tsx";
import { TextField } from "../frame/console/components/form.tsx";
import { Foreign } from "../frame/console/components/values.tsx";
import { EMAIL, refuseFields } from "../frame/console/form_fields.ts";
import { type ActedKey, CHANGE_GROUP, type KeyAction } from "./key_action.ts";

export const moveToAccount: KeyAction = action({
  name: "move",
  isRare: true,
  scope: "keys:manage",
  label: "Move to another account",
  group: CHANGE_GROUP,
  submit: "Move the license",
  // Whoever has the e-mail is taken for the customer.
  needsFreshProof: true,
  // Also if all keys are revoked: a new key can be issued for the license afterwards.
  fits: ({ key }) => !isErased(key),
  Form: ({ of: { key }, field }) => (
    <>
      <p>
        Now it belongs to <Foreign text={key.email} />. All its keys, machines, use and events go along; the
        keys answer with the other account within a second. Custom models stay with their account. A license
        file that was made before keeps the old names until it ends.
      </p>
      <TextField {...field("to")} label="E-mail of the other account" type="email" required />
      <Consent field={field} name="new_account" label="Make the account if no account has this e-mail" />
      <Consent field={field} name="lose_models" label="Allow the loss of custom models" />
    </>
  ),
  entries: {
    to: EMAIL,
    new_account: CONSENT,
    lose_models: CONSENT,
  },
  async perform({ of, fields: { to: email, new_account: mayBeNew, lose_models: mayLose }, by, visit }) {
    const move = (isDryRun: boolean) =>
      moveLicense(visit.options.licenseChanges, licenseUuidOf(of), {
        ...by,
        to: { email, mayBeNew },
        isDryRun,
      });
    const foreseen = await move(true);
    if (isRefusal(foreseen)) return askForAccount(foreseen);
    if (foreseen.losesModels.length > 0 && !mayLose) return askForLoss(foreseen);
    return await move(false);
  },
  done: { "license.move": ({ key }) => `The license belongs to ${key.email} now, with all its keys.` },
});

function licenseUuidOf({ key: { licenseId } }: ActedKey): string {
  return parseId("lic", licenseId) ?? "";
}

function askForAccount(refusal: Refusal): Refusal {
  if (refusal.remedy?.name !== "allow_new_account") return refusal;
  const error = `${refusal.stem}. Check the box if the account is to be made`;
  return refuseFields([{ field: "new_account", error }]);
}

function askForLoss({ to, losesModels }: Move): Refusal {
  const error = `With ${to.email} the license cannot load ${losesModels.join(", ")}. Check the box if that is meant`;
  return refuseFields([{ field: "lose_models", error }]);
}
