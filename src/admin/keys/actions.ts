/** The actions that the page of a key offers. */
import { exportLicense } from "./export_license.tsx";
import {
  changeExternalId,
  changeLimit,
  changeMachines,
  changeTier,
  changeUpdates,
  renew,
} from "./license_actions.tsx";
import { moveToAccount } from "./move_action.tsx";
import { replace, rotate } from "./rotate.tsx";
import { resume, revoke, suspend } from "./state_actions.tsx";

/** The actions in the order of the page. */
export const KEY_ACTIONS = [
  resume,
  renew,
  replace,
  rotate,
  exportLicense,
  changeTier,
  changeLimit,
  changeMachines,
  changeUpdates,
  changeExternalId,
  moveToAccount,
  suspend,
  revoke,
];
