/** A browser without pages: it keeps cookies, follows redirects, and signs in at the provider. */
import { expect } from "bun:test";

export type ProviderBrowser = ReturnType<typeof createProviderBrowser>;

export function createProviderBrowser(console: string) {
  const cookies = new Map<string, { value: string; path: string }>();

  async function send(address: string, init: RequestInit = {}): Promise<Response> {
    const { pathname } = new URL(address);
    const sent = [...cookies].filter(([, { path }]) => pathname.startsWith(path));
    const cookie = sent.map(([name, { value }]) => `${name}=${value}`).join("; ");
    const headers = { ...(init.headers as Record<string, string>), cookie };
    const answer = await fetch(address, { ...init, redirect: "manual", headers });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      const path = /; ?path=([^;]+)/i.exec(line)?.[1] ?? "/";
      if (value === "" || /max-age=0/i.test(line)) cookies.delete(name);
      else cookies.set(name, { value, path });
    }
    return answer;
  }

  /** Follows redirects until an address below `/console/callback`, or a page. */
  async function follow(address: string, init?: RequestInit): Promise<string> {
    let next = address;
    let how = init;
    for (let steps = 0; steps < 10; steps++) {
      if (next.startsWith(`${console}/console/callback`)) return next;
      const answer = await send(next, how);
      how = undefined;
      const location = answer.headers.get("location");
      if (location === null) return next;
      next = new URL(location, next).href;
    }
    throw new Error("The redirects have no end");
  }

  /** Begins a login and signs in at the provider; returns the address of the callback, which was not opened yet. */
  async function signIn(name: string, query = ""): Promise<string> {
    const page = await follow(`${console}/console/enter/provider${query}`);
    if (page.startsWith(`${console}/console/callback`)) return page;
    expect(new URL(page).pathname).toStartWith("/login/");
    return await follow(page, { method: "POST", body: new URLSearchParams({ name }) });
  }

  return {
    cookies,
    send,
    signIn,
    async logIn(name: string, query?: string) {
      const answer = await send(await signIn(name, query));
      return { status: answer.status, text: await answer.text() };
    },
    /** Returns the status of a page of the console. */
    open: async (path: string) => (await send(`${console}/console${path}`)).status,
  };
}
