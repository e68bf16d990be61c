/**
 * What gives lasting access needs a login of the last five minutes, so whoever steals a session gets nothing that lasts.
 * The forms are those whose actions say so themselves.
 */
import { describe, expect, test } from "bun:test";
import { CONSOLE_ROUTES } from "../../src/admin/things.ts";
import { useAdmin } from "../support/use.ts";
import { ACTIONS } from "./console_actions.ts";
import { createConsoleClient } from "./console_client.ts";
import { makeVisit } from "./sample_visits.ts";
import { textsOf } from "./texts_of.ts";

const FIVE_MINUTES_MS = 300_000;
const REFUSED = "Only an operator who logged in within the last five minutes may do this";

const admin = useAdmin();
const client = createConsoleClient(admin);

const guarded = ACTIONS.filter(({ needsFreshProof }) => needsFreshProof);
const forms = CONSOLE_ROUTES.filter(({ method }) => method !== "GET");

/** Logs an admin in and makes the sample of a form, so long ago that the login is `ageMs` old. */
async function visitWith(form: { readonly method: string; readonly path: string }, ageMs: number) {
  const { cookie } = await client.logIn("admin");
  const { path, ...sent } = await makeVisit(admin, form);
  admin.clock.advance(ageMs);
  return {
    send: (more: Record<string, string> = {}) =>
      client.send(path, {
        ...sent,
        method: form.method,
        cookie,
        ...(sent.form && { form: { ...sent.form, ...more } }),
      }),
    /** Opens the page with the form, which a rare one has only if the address asks for it. */
    open: () => client.send(path.replace(/\/([^/]+)$/, "?open=$1"), { cookie }),
    path,
  };
}

/** Reads who has access that outlives a session: roles and tokens; and who is known by an e-mail. */
async function readLasting() {
  const rows = await admin.database.query<{ kind: "access" | "person"; what: string }>(
    (sql) => sql`
      select 'access' as kind, name || ' ' || role as what from operators where removed_at is null
      union all select 'access', name || ' ' || hash::text || ' ' || coalesce(expires_at::text, 'never')
                  from tokens where state = 'active'
      union all select 'person', email from accounts`,
  );
  const of = (wanted: string) => rows.filter(({ kind }) => kind === wanted).map(({ what }) => what);
  return { access: of("access"), persons: of("person") };
}

test("a stolen session that sends every form of the console gets no access that lasts, and erases nobody", async () => {
  const refused: string[] = [];
  for (const form of forms) {
    const { send } = await visitWith(form, FIVE_MINUTES_MS + 1);
    const before = await readLasting();
    const { status, text } = await send();
    const after = await readLasting();
    // Other forms of the page may warn of the same.
    const isRefused = textsOf(text, ".notice.bad").some((notice) => notice.includes(REFUSED));
    if (status === 403 && isRefused) refused.push(form.path);
    expect({ form, got: after.access.filter((each) => !before.access.includes(each)) }).toEqual({
      form,
      got: [],
    });
    expect({ form, gone: before.persons.filter((each) => !after.persons.includes(each)) }).toEqual({
      form,
      gone: [],
    });
  }
  expect(refused.toSorted()).toEqual(guarded.map(({ path }) => path).toSorted());
});

describe.each(guarded)("The form $path", ({ name, path }) => {
  const form = { method: "POST", path };
  const noticeOf = (text: string) =>
    new RegExp(`id="${name}-form"[^>]*><h[23]>[^<]*</h[23]><div class="notice (\\w+)".*?</div>`).exec(text);

  test("says at its top before anything is typed that it needs a new login, which leads back to it", async () => {
    const { open, path: sent } = await visitWith(form, FIVE_MINUTES_MS + 1);

    const [notice = "", kind] = noticeOf((await open()).text) ?? [];

    expect(kind).toBe("warning");
    expect(notice).toContain(REFUSED);
    const page = sent.replace(/\/[^/]+$/, "");
    const back = encodeURIComponent(`/console${page}?open=${name}#${name}-form`);
    expect(notice).toContain(`<a href="/console/enter?fresh=1&amp;to=${back}">Log in again</a>`);
  });

  test("is as others while the login is young", async () => {
    // The clock goes on meanwhile; `fresh_proof_test.ts` has the exact end.
    const { open, send } = await visitWith(form, FIVE_MINUTES_MS - 20_000);

    expect(noticeOf((await open()).text)?.[1]).toBeUndefined();
    expect((await send()).status).toBeWithin(200, 400);
  });

  test("is refused with an old login, and shows again what was entered", async () => {
    const { send } = await visitWith(form, FIVE_MINUTES_MS + 1);

    const { status, text } = await send({ reason: "as agreed with <b>" });

    expect({ status, kind: noticeOf(text)?.[1] }).toEqual({ status: 403, kind: "bad" });
    expect(text).toMatch(new RegExp(`<details [^>]*id="${name}" open=""`));
    expect(text).toContain('value="as agreed with &lt;b&gt;"');
  });
});
