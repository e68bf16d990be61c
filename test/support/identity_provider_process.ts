/**
 * An OpenID provider in a process of its own, by `oidc-provider`, which is certified. Its log-in page takes any name of
 * the file of people and asks for no password. It prints a line when it listens.
 *
 * Arguments: the port, the origin of the console, and the file of people, which is read at each login.
 */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Provider } from "oidc-provider";
import { CLIENT, type Person } from "./identity_provider.ts";

const [port = "", adminUrl = "", file = ""] = process.argv.slice(2);
const people = (): Record<string, Person> => JSON.parse(readFileSync(file, "utf8"));

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: CLIENT.id,
      client_secret: CLIENT.secret,
      redirect_uris: [`${adminUrl}/console/callback`],
      post_logout_redirect_uris: [`${adminUrl}/console/enter?done=logged-out`],
    },
  ],
  scopes: ["openid", "profile", "groups"],
  claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
  features: {
    devInteractions: { enabled: false },
    rpInitiatedLogout: {
      // The page of the library loads a font from elsewhere.
      logoutSource(context, form) {
        const button = '<button form="op.logoutForm" name="logout" value="yes">Yes, sign me out</button>';
        context.body = `<!doctype html><title>Sign out</title>${form}${button}`;
      },
    },
  },
  interactions: { url: (_context, { uid }) => `/login/${uid}` },
  findAccount: (_context, sub) => {
    const person = Object.values(people()).find((each) => each.subject === sub);
    const { name, groups } = person ?? { name: "", groups: [] };
    return { accountId: sub, claims: () => ({ sub, preferred_username: name, groups }) };
  },
  // Nobody is asked whether the console may know the name and the groups.
  async loadExistingGrant({ oidc }) {
    const { client, session } = oidc;
    const grant = new provider.Grant({
      clientId: client?.clientId ?? "",
      accountId: session?.accountId ?? "",
    });
    grant.addOIDCScope("openid profile groups");
    await grant.save();
    return grant;
  },
});

const answer = provider.callback();
const server = createServer(async (request, response) => {
  const isLogin = request.url?.startsWith("/login/");
  if (!isLogin) return answer(request, response);
  if (request.method === "GET") {
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    const field = '<label>Name <input name="name" autofocus></label><button>Sign in</button>';
    return response.end(`<!doctype html><title>Sign in</title><form method="post">${field}</form>`);
  }
  const form = new URLSearchParams(await new Response(request as never).text());
  const subject = people()[form.get("name") ?? ""]?.subject ?? "";
  await provider.interactionFinished(request, response, { login: { accountId: subject } });
});
server.listen(Number(port), "127.0.0.1", () => console.log("listens"));
