/** The things of the operators' side, and every route that they have. */
import { access } from "./access/routes.ts";
import { accounts } from "./accounts/routes.ts";
import { activity } from "./activity/routes.ts";
import { audit } from "./audit/routes.ts";
import { getOpenApi } from "./frame/api/document.ts";
import type { Route } from "./frame/api/route.ts";
import type { ConsoleRoute } from "./frame/console/route.ts";
import { health } from "./health/routes.ts";
import { keys } from "./keys/routes.ts";
import { machines } from "./machines/routes.ts";
import { models } from "./models/routes.ts";
import { notices } from "./notices/routes.ts";
import { overview } from "./overview/routes.ts";
import { search } from "./search/routes.ts";
import { tiers } from "./tiers/routes.ts";
import { usage } from "./usage/routes.ts";

/** In the order of the menu. The first page is shown after the login. */
export const THINGS = [
  overview,
  notices,
  keys,
  accounts,
  machines,
  tiers,
  usage,
  activity,
  models,
  audit,
  health,
  access,
  search,
] as const;

/** Every page and form below `/console`, with the right that a role needs for it. */
export const CONSOLE_ROUTES: readonly ConsoleRoute[] = THINGS.flatMap(({ pages }) => pages);

/** Every route of the API below `/admin/v1`, with the scope that a token needs for it, in the order of its document. */
export const ROUTES: readonly Route[] = [
  ...[keys, accounts, machines, tiers, usage, models, notices, audit, activity, health, access].flatMap(
    ({ api }) => api,
  ),
  getOpenApi,
];
