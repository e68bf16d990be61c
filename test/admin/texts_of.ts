/** Reads pages of the console as people see them, without a browser. */

const ENTITIES: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
  "&amp;": "&",
};

/** A text that runs a script if a page shows it as markup. */
export const HOSTILE = `<img src=x onerror="document.title='run'"> "'&amp;evil`;

/** The elements that begin a line or a cell of their own. */
const BLOCKS = "td, th, li, p, div, dt, dd, caption, summary, h1, h2, h3, br";

function decode(text: string): string {
  return text.replaceAll(/&(?:lt|gt|quot|amp|#39);/g, (entity) => ENTITIES[entity] ?? entity);
}

/**
 * Returns the text of each element that the selector finds, in the order of the page, with single spaces between words.
 * The selector is one of `HTMLRewriter`: it has no siblings and no `:has()`.
 */
export function textsOf(html: string, selector: string): string[] {
  const texts: string[] = [];
  /** The elements around the place that is read. */
  const open: number[] = [];
  const add = (text: string) => {
    for (const at of open) texts[at] += text;
  };
  new HTMLRewriter()
    .on(selector, {
      element(element) {
        open.push(texts.push("") - 1);
        element.onEndTag(() => void open.pop());
      },
    })
    .on(BLOCKS, { element: () => add(" ") })
    .onDocument({ text: ({ text }) => add(text) })
    .transform(html);
  return texts.map((text) => decode(text).replaceAll(/\s+/g, " ").trim());
}

/** Returns the text of the main part of a page, without the menu; empty if the page has none. */
export const mainOf = (html: string): string => textsOf(html, "main")[0] ?? "";

/** Returns the value of an attribute of each element that the selector finds and that has the attribute. */
export function attributesOf(html: string, selector: string, attribute: string): string[] {
  const values: string[] = [];
  new HTMLRewriter()
    .on(selector, {
      element(element) {
        const value = element.getAttribute(attribute);
        if (value !== null) values.push(decode(value));
      },
    })
    .transform(html);
  return values;
}

/** Returns the path below `/console` of the first link that contains the text; empty without one. */
export function linkTo(html: string, text: string): string {
  const links = textsOf(html, "a[href]");
  const at = links.findIndex((each) => each.includes(text));
  return (attributesOf(html, "a[href]", "href")[at] ?? "").replace(/^\/console/, "");
}
