/** The search box of every page. */
import { form, page } from "../frame/console/route.ts";
import type { Thing } from "../frame/thing.ts";
import { searchOfForm, searchPage } from "./search.tsx";

export const search: Thing = {
  label: null,
  pages: [page("/search", "any", searchPage), form("/search", "any", searchOfForm)],
  api: [],
};
