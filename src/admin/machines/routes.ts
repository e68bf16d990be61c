/** Machines, for operators. */
import { detailRoutes } from "../frame/console/detail_page.tsx";
import { listRoutes } from "../frame/console/list_page.tsx";
import type { Thing } from "../frame/thing.ts";
import { MACHINE_PAGE } from "./machine.tsx";
import { MACHINES } from "./machines.tsx";
import { MACHINE_ROUTES } from "./machines_routes.ts";
import { MANY_MACHINES_ROUTES } from "./many_machines.tsx";

export const machines: Thing = {
  label: "Machines",
  pages: [...listRoutes(MACHINES), ...MANY_MACHINES_ROUTES, ...detailRoutes(MACHINE_PAGE)],
  api: MACHINE_ROUTES,
};
