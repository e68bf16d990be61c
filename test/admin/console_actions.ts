/** The pages with actions, and these actions with the paths of their forms. `to_many_test.ts` shows that none is missing. */
import { ACCESS_PAGE } from "../../src/admin/access/access.tsx";
import { OPERATOR_PAGE } from "../../src/admin/access/operator.tsx";
import { TOKEN_PAGE } from "../../src/admin/access/token.tsx";
import { ACCOUNT_PAGE } from "../../src/admin/accounts/account.tsx";
import { ERASURE_PAGE } from "../../src/admin/accounts/erasure.tsx";
import { KEY_PAGE } from "../../src/admin/keys/key.tsx";
import { LICENSE_PAGE } from "../../src/admin/keys/license.tsx";
import { MACHINE_PAGE } from "../../src/admin/machines/machine.tsx";
import { MODEL_PAGE } from "../../src/admin/models/model.tsx";
import { MUTED_PAGE } from "../../src/admin/notices/muted.tsx";
import { NOTICE_PAGE } from "../../src/admin/notices/notice.tsx";
import { TIERS_PAGE } from "../../src/admin/tiers/tiers.tsx";

const PAGES = [
  KEY_PAGE,
  LICENSE_PAGE,
  ACCOUNT_PAGE,
  ERASURE_PAGE,
  MACHINE_PAGE,
  NOTICE_PAGE,
  MUTED_PAGE,
  TIERS_PAGE,
  MODEL_PAGE,
  ACCESS_PAGE,
  OPERATOR_PAGE,
  TOKEN_PAGE,
];

export const ACTIONS = PAGES.flatMap((page) =>
  page.actions.map(({ name, toMany, isDownload, needsFreshProof }) => ({
    name,
    toMany,
    isDownload,
    needsFreshProof,
    path: `${page.path}/${name}`,
  })),
);
