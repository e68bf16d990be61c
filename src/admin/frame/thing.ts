import type { Route } from "./api/route.ts";
import type { ConsoleRoute } from "./console/route.ts";

/** What operators can see and change of one thing. */
export interface Thing {
  /** The entry of the first page in the menu; null if it has none. */
  readonly label: string | null;
  /** The pages and forms of the console. The menu shows the entry only to roles that may open the first page. */
  readonly pages: readonly [ConsoleRoute, ...ConsoleRoute[]];
  readonly api: readonly Route[];
}
