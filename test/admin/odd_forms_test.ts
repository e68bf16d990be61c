/**
 * Sends odd texts in every field of every form and every page of the console. None fails, none is shown as markup, and a
 * refusal that speaks of marked fields has marked each, so that the first one gets the focus.
 */
import { beforeAll, expect, test } from "bun:test";
import { CONSOLE_ROUTES } from "../../src/admin/things.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { CONSOLE_CONDITIONS } from "./console_conditions.ts";
import { makeVisit } from "./sample_visits.ts";

const admin = useAdmin();
const operators = createConsoleClient(admin);
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await operators.logIn("admin"));
});

/** The parameters of pages besides their conditions. */
const others = ["done", "open", "email"];

const odd = [
  "a\u0000b",
  // What bytes become that were no text.
  "a\ufffdb",
  "",
  " ",
  "a".repeat(60_000),
  "<script>",
  "'; drop table keys; --",
  "-1",
  "1e400",
  "9999-99-99",
  "9999-12-31",
  "2020-01-31",
];

/** Returns how many fields the sentence of a refusal says it has marked, and how many controls the page marks. */
function marksIn(text: string) {
  const [, many = "1"] = /: correct the (?:(\d+) )?marked fields?\./.exec(text) ?? ["", "0"];
  const marked = text.match(/<(?:input|select|fieldset|textarea)\b[^>]*aria-invalid="true"/g) ?? [];
  return { said: Number(many), marked: marked.length, hasFocus: / autofocus=""/.test(text) };
}

for (const { method, path } of CONSOLE_ROUTES.filter((route) => route.path !== "/logout")) {
  test(`answers ${method} ${path} with any text without a failure, and does not repeat it as markup`, async () => {
    const { path: sample, form } = await makeVisit(admin, { method, path });
    const conditions = Object.keys(CONSOLE_CONDITIONS[path] ?? {});
    const known = form ? Object.keys(form) : [...conditions, ...others];
    const names = [...known, "colour", "__proto__"];
    const sendOdd = (name: string) =>
      odd.map(async (text) => {
        const query = new URLSearchParams([[name, text.slice(0, 6_000)]]);
        const sent = form ? { method, cookie, form: { ...form, [name]: text } } : { method, cookie };
        const answer = await operators.send(form ? sample : `${sample}?${query}`, sent);
        expect({ name, text: text.slice(0, 20), failed: answer.status >= 500 }).toEqual({
          name,
          text: text.slice(0, 20),
          failed: false,
        });
        const { said, ...shown } = marksIn(answer.text);
        // Nobody enters the text of a hidden field.
        const isHidden = new RegExp(`<input type="hidden" name="${name}"`).test(answer.text);
        if (said > 0 && !isHidden)
          expect({ name, text, ...shown }).toEqual({ name, text, marked: said, hasFocus: true });
        // A browser never takes a CSV for markup, and it has the reasons as they were written.
        if (answer.headers.get("content-type")?.startsWith("text/csv")) return;
        expect(answer.text).not.toContain("<script>");
      });
    for (const name of names) await Promise.all(sendOdd(name));
    // Without a session each answer would lead to the login.
    expect(await operators.isLoggedIn(cookie)).toBe(true);
  });
}
