/** The clients that pages of the manual print: they verify licenses (`offline`), or keep a place for a machine (`sdk`). */
import { findPage } from "./pages.ts";
import python from "./sdk/claviger_client.py" with { type: "text" };
import shell from "./sdk/claviger_client.sh" with { type: "text" };
// @ts-expect-error: as a text it has a default export, which it has not as a module.
import typescript from "./sdk/claviger_client.ts" with { type: "text" };

/** The languages, and the names of their code blocks on the page `offline`. */
const BLOCKS = { python: "python", typescript: "ts", shell: "sh" } as const;
const MODULES: Readonly<Record<ClientLanguage, string>> = { python, typescript, shell };

export type ClientLanguage = keyof typeof BLOCKS;
export const CLIENT_LANGUAGES = Object.keys(BLOCKS) as ClientLanguage[];

/** Returns the client of a page in a language; undefined if the page has no clients. */
export function printClient(page: string | undefined, language: ClientLanguage): string | undefined {
  if (page === "sdk") return MODULES[language];
  if (page !== "offline") return undefined;
  const block = new RegExp(`^\`\`\`${BLOCKS[language]}\\n(.*?)^\`\`\`$`, "ms");
  return block.exec(findPage(page)?.text ?? "")?.[1];
}
