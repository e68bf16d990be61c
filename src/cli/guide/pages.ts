/**
 * The pages of the manual, in the order of the list. A test compares this list with the folder. The name of a page is the
 * NAME in `claviger guide NAME`, and the name of its file without `.md`. Its text is Markdown, whose links to other pages
 * are relative: `[restore](backups.md#restore)`.
 */
import accounts from "./accounts.md" with { type: "text" };
import backups from "./backups.md" with { type: "text" };
import changes from "./changes.md" with { type: "text" };
import closedNetworks from "./closed-networks.md" with { type: "text" };
import commands from "./commands.md" with { type: "text" };
import console from "./console.md" with { type: "text" };
import containers from "./containers.md" with { type: "text" };
import firstKey from "./first-key.md" with { type: "text" };
import follow from "./follow.md" with { type: "text" };
import http from "./http.md" with { type: "text" };
import keys from "./keys.md" with { type: "text" };
import login from "./login.md" with { type: "text" };
import machines from "./machines.md" with { type: "text" };
import models from "./models.md" with { type: "text" };
import monitoring from "./monitoring.md" with { type: "text" };
import node from "./node.md" with { type: "text" };
import notices from "./notices.md" with { type: "text" };
import offline from "./offline.md" with { type: "text" };
import operators from "./operators.md" with { type: "text" };
import debianPackage from "./package.md" with { type: "text" };
import postgres from "./postgres.md" with { type: "text" };
import replicas from "./replicas.md" with { type: "text" };
import repositoryTokens from "./repository-tokens.md" with { type: "text" };
import sdk from "./sdk.md" with { type: "text" };
import service from "./service.md" with { type: "text" };
import settings from "./settings.md" with { type: "text" };
import systemd from "./systemd.md" with { type: "text" };
import troubleshooting from "./troubleshooting.md" with { type: "text" };
import verify from "./verify.md" with { type: "text" };

export const PAGES = [
  { name: "first-key", summary: "from the file to a first key, in five minutes", text: firstKey },
  { name: "verify", summary: "check who made a release, and what is in it", text: verify },
  { name: "service", summary: "a service with TLS, a model and an hourly backup", text: service },
  { name: "package", summary: "the Debian package: install, upgrade, remove", text: debianPackage },
  { name: "systemd", summary: "the unit: what it restricts, and how to change it", text: systemd },
  { name: "containers", summary: "podman, Docker, a compose file, Kubernetes", text: containers },
  { name: "postgres", summary: "the PostgreSQL inside, or your own, and failover", text: postgres },
  { name: "replicas", summary: "several services on one database behind a balancer", text: replicas },
  { name: "backups", summary: "save, verify and restore an installation", text: backups },
  { name: "models", summary: "register models and serve their files", text: models },
  { name: "repository-tokens", summary: "the token that the installer gets", text: repositoryTokens },
  { name: "keys", summary: "issue, find, suspend, rotate and revoke keys", text: keys },
  { name: "offline", summary: "licenses that clients check without a network", text: offline },
  { name: "closed-networks", summary: "the round trip by files, without a network", text: closedNetworks },
  { name: "machines", summary: "on how many machines a license runs, and free a place", text: machines },
  { name: "sdk", summary: "write a client: what to repeat, machines, seats", text: sdk },
  { name: "accounts", summary: "customers, their use, and the audit log", text: accounts },
  { name: "operators", summary: "people, tokens, and the API for programs", text: operators },
  { name: "console", summary: "the console in the browser: open it, roles, pages", text: console },
  { name: "login", summary: "people log in with your identity provider", text: login },
  { name: "notices", summary: "what needs attention: licenses that end, full quotas", text: notices },
  { name: "monitoring", summary: "health, doctor, metrics and the log", text: monitoring },
  { name: "follow", summary: "give each change to mail, chat, tickets or a log", text: follow },
  { name: "troubleshooting", summary: "what each error message means and what to do", text: troubleshooting },
  { name: "settings", summary: "every setting with its default", text: settings },
  { name: "commands", summary: "every command with its options", text: commands },
  { name: "http", summary: "the HTTP interface for clients", text: http },
  { name: "node", summary: "run Claviger on Node", text: node },
  { name: "changes", summary: "what changed in each version", text: changes },
];

/** Returns the page of that name; undefined if there is none. */
export function findGuidePage(name: string) {
  return PAGES.find((page) => page.name === name);
}
