/** Runs the Debian tools of a release, and says which package has one that is missing. */

/** The Debian package of each tool whose package has another name than the tool. */
const PACKAGES: Readonly<Record<string, string>> = {
  "apt-get": "apt",
  "dpkg-deb": "dpkg",
  "ssh-keygen": "openssh-client",
};

/** Throws if one of the tools is missing, with what to install. */
export function requireTools(tools: readonly string[]): void {
  const missing = tools.filter((tool) => Bun.which(tool) === null);
  if (missing.length === 0) return;
  const packages = missing.map((tool) => PACKAGES[tool] ?? tool).join(" ");
  throw new Error(`Cannot find ${missing.join(", ")}; on Debian run: apt-get install ${packages}`);
}

/** Runs a command in a folder and returns its output. Throws with its errors if it fails. */
export function runTool(command: readonly [tool: string, ...args: string[]], cwd: string): string {
  requireTools([command[0]]);
  const env = { ...process.env, LC_ALL: "C", TAR_OPTIONS: "" };
  const ended = Bun.spawnSync([...command], { cwd, env, stdin: "ignore", stderr: "pipe" });
  if (ended.exitCode === 0) return ended.stdout.toString();
  throw new Error(`Cannot run ${command[0]}: ${ended.stderr.toString().trim()}`);
}
