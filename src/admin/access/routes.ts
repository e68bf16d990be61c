/** Who may use the console and the API: operators, their sessions, and tokens. */
import { detailRoutes } from "../frame/console/detail_page.tsx";
import { logOut } from "../frame/console/log_in.ts";
import { form } from "../frame/console/route.ts";
import type { Thing } from "../frame/thing.ts";
import { ACCESS_PAGE, endSessionOfForm } from "./access.tsx";
import { OPERATOR_PAGE } from "./operator.tsx";
import { TOKEN_PAGE } from "./token.tsx";
import { whoami } from "./whoami.ts";

export const access: Thing = {
  label: "Access",
  pages: [
    ...detailRoutes(ACCESS_PAGE),
    form("/access/sessions/:id/end", "any", endSessionOfForm),
    ...detailRoutes(OPERATOR_PAGE),
    ...detailRoutes(TOKEN_PAGE),
    form("/logout", "any", logOut),
  ],
  api: [whoami],
};
