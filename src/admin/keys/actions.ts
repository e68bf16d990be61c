/** The actions that the pages of a key and of a license offer. */
import { exportLicense } from "./export_license.tsx";
import {
  changeExternalId,
  changeLimit,
  changeMachines,
  changeOfflineDays,
  changeTier,
  changeUpdates,
  renew,
} from "./license_actions.tsx";
import { makeBundle } from "./make_bundle.tsx";
import { moveToAccount } from "./move_action.tsx";
import { changeFeatures, changeValues } from "./own_actions.tsx";
import { replace, rotate } from "./rotate.tsx";
import { resume, revoke, suspend } from "./state_actions.tsx";

const CHANGES = [
  changeTier,
  changeLimit,
  changeMachines,
  changeOfflineDays,
  changeUpdates,
  changeFeatures,
  changeValues,
  changeExternalId,
  moveToAccount,
];

/** The actions of a license, in the order of its page. */
export const LICENSE_ACTIONS = [renew, ...CHANGES];

/** The actions of a key and of its license, in the order of the page of a key. */
export const KEY_ACTIONS = [
  resume,
  renew,
  replace,
  rotate,
  exportLicense,
  makeBundle,
  ...CHANGES,
  suspend,
  revoke,
];
