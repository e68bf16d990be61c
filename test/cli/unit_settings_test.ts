/** Tests how commands find the installation of the service's unit, on answers that systemd 252 gave. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { checkFiles } from "../../src/cli/commands/config_command.ts";
import { parseUnit, withUnitSettings } from "../../src/cli/unit_settings.ts";
import { type ConfigSource, readConfig } from "../../src/installation/config/mod.ts";
import { asNobody } from "../support/as_nobody.ts";
import { makeCertificate } from "../support/certificates.ts";
import { configOf } from "../support/config.ts";
import { APP_KEYS, type GitHubStandIn, startGitHubStandIn } from "../support/github_stand_in.ts";
import { readFindings, refusalOf } from "./command_line.ts";
import { useCommandLine } from "./use_command_line.ts";

const SECRET = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const line = useCommandLine();

interface Unit {
  readonly environment?: readonly string[];
  readonly envFiles?: readonly string[];
  readonly credentials?: Readonly<Record<string, string>>;
  readonly state?: string;
}

/** Returns busctl's output about such a unit. */
function render({ environment = [], envFiles = [], credentials = {}, state }: Unit): string {
  const lines = [
    { type: "as", data: environment },
    { type: "a(sb)", data: envFiles.map((path) => [path, true]) },
    { type: "a(ss)", data: Object.entries(credentials) },
    { type: "as", data: state === undefined ? [] : [state] },
  ];
  return `${lines.map((each) => JSON.stringify(each)).join("\n")}\n`;
}

/** What busctl prints about the units of these names, of which systemd 252 tells more. */
function renderList(...names: string[]): string {
  const units = names.map((name) => [name, "Claviger", "loaded", "active", "running", "", "/", 0, "", "/"]);
  return `${JSON.stringify({ type: "a(ssssssouso)", data: [units] })}\n`;
}

/**
 * Makes a folder for the PATH with a busctl that gives this answer about the service's unit, another answer to a
 * question for the units of the template, and writes down its arguments. The file `second` has the answer about the
 * second unit of the template.
 */
function standIn(name: string, text: string, status = 0, list = renderList()): string {
  const folder = join(line.folder, name);
  mkdirSync(folder);
  writeFileSync(join(folder, "answer"), text);
  writeFileSync(join(folder, "second"), text);
  writeFileSync(join(folder, "list"), list);
  const script = `#!/bin/sh
echo "$*" >> ${folder}/asked
case "$*" in
  *ListUnits*) /bin/cat ${folder}/list ;;
  *claviger_402_2eservice*) /bin/cat ${folder}/second ;;
  *) /bin/cat ${folder}/answer ;;
esac
exit ${status}
`;
  writeFileSync(join(folder, "busctl"), script);
  chmodSync(join(folder, "busctl"), 0o755);
  return folder;
}

function parsed(text: string) {
  const unit = parseUnit(text);
  if (unit === undefined || isRefusal(unit)) throw new Error(`No unit: ${JSON.stringify(unit)}`);
  return unit;
}

describe("parseUnit()", () => {
  const REAL = String.raw`{"type":"as","data":["A=1","B=two words","C=it is \"quoted\"","D=back\\slash","E=dollar $HOME","F=tab\there","G=new\nline","I=","J=ünï t.service","K=a=b","CLAVIGER_TLS_KEY=/run/credentials/claviger.service/claviger-tls-key"]}
{"type":"a(sb)","data":[["/etc/claviger/claviger.env",true],["/etc/other dir.env",false]]}
{"type":"a(ss)","data":[["bare","bare"],["claviger-tls-key","/etc/claviger/tls.key"],["claviger-github-key","/etc/claviger/github app.pem"]]}
{"type":"as","data":["claviger"]}
`;

  test("reads every property as it was set", () => {
    const { envFiles, credentials, name, stateFolder } = parsed(REAL);
    expect([name, stateFolder]).toEqual(["claviger.service", "/var/lib/claviger"]);
    expect(envFiles).toEqual(["/etc/claviger/claviger.env", "/etc/other dir.env"]);
    expect([...credentials]).toEqual([
      ["claviger-tls-key", "/etc/claviger/tls.key"],
      ["claviger-github-key", "/etc/claviger/github app.pem"],
    ]);
  });

  test("keeps of Environment= what is a setting and has a value", () => {
    const environment = ["TZ=Europe/Berlin", "CLAVIGER_HOST=", "CLAVIGER_BRAND=a=b", "CLAVIGER_NO=1"];
    expect([...parsed(render({ environment })).oldSettings]).toEqual([["CLAVIGER_BRAND", "a=b"]]);
  });

  test("reads the empty answer as that of a missing unit", () => {
    expect(parseUnit(render({}))).toBeUndefined();
  });

  test.each(["", "null\n", "{}\n{}\n{}\n{}\n", "Environment=A=1\n"])(
    "refuses what it does not know: %j",
    (text) => {
      const refusal = parseUnit(text);
      expect(isRefusal(refusal) && refusal.sentence).toBe(
        "Cannot read systemd's answer about claviger.service: its form is unknown",
      );
    },
  );
});

describe("withUnitSettings()", () => {
  const source = { workingFolder: "/", isRoot: true };

  test("asks systemd for every user, unless a command has its settings already", async () => {
    const PATH = standIn("idle", render({ state: "claviger" }));
    const own = [
      { ...source, env: { PATH, CLAVIGER_DATA_DIR: "/srv" }, envFile: "/dev/null" },
      { ...source, env: { PATH }, envFile: "/dev/null", flags: { CLAVIGER_DATA_DIR: "/srv" } },
      { ...source, env: { PATH, STATE_DIRECTORY: "/var/lib/claviger" } },
      { ...source, env: { PATH, CLAVIGER_DATA_DIR: "/srv", CREDENTIALS_DIRECTORY: "/run/credentials/x" } },
      { ...source, env: {} },
      { ...source, env: { PATH: "idle:" } },
    ];
    for (const each of own) expect(withUnitSettings(each)).toMatchObject(each);
    expect(await Bun.file(join(PATH, "asked")).exists()).toBe(false);
    for (const isRoot of [true, false]) {
      const { unit } = withUnitSettings({ ...source, isRoot, env: { PATH } });
      expect(unit?.stateFolder).toBe("/var/lib/claviger");
    }
  });

  test("takes the first service of the template, if one runs or starts with the host", async () => {
    const text = render({
      envFiles: ["/etc/claviger/claviger.env", "/etc/claviger/claviger@1.env"],
      credentials: { "claviger-tls-key": "/etc/claviger/tls.key" },
      state: "claviger",
    });
    const PATH = standIn("template", text, 0, renderList("claviger@2.service", "claviger@1.service"));
    const { unit } = withUnitSettings({ ...source, env: { PATH } });
    expect(unit).toMatchObject({
      name: "claviger@1.service",
      stateFolder: "/var/lib/claviger",
      envFiles: ["/etc/claviger/claviger.env", "/etc/claviger/claviger@1.env"],
      siblings: [{ name: "claviger@2.service" }],
    });
    const asked = await Bun.file(join(PATH, "asked")).text();
    expect(asked).toContain(" ListUnitsByPatterns asas 1 loaded 1 claviger@*.service\n");
    expect(asked).toContain(" /org/freedesktop/systemd1/unit/claviger_401_2eservice ");
  });

  test("takes the unit claviger.service otherwise", async () => {
    const PATH = standIn("one", render({ state: "claviger" }));
    expect(withUnitSettings({ ...source, env: { PATH } }).unit?.name).toBe("claviger.service");
    expect(await Bun.file(join(PATH, "asked")).text()).toContain("/unit/claviger_2eservice ");
  });

  test("does not take a unit for granted if the list of the services cannot be read", () => {
    const PATH = standIn("odd", render({ state: "claviger" }), 0, "null\n");
    expect(withUnitSettings({ ...source, env: { PATH } })).toMatchObject({
      unseen: { why: "Cannot read systemd's list of the services: its form is unknown" },
    });
  });

  test("goes on if there is no systemd", () => {
    const PATH = standIn("broken", "Failed to connect to bus\n", 1);
    expect(withUnitSettings({ ...source, env: { PATH } }).unit).toBeUndefined();
  });

  test("waits some seconds at most for the answer, and stops reading an endless one", () => {
    const PATH = standIn("endless", "");
    writeFileSync(join(PATH, "busctl"), "#!/bin/sh\nexec /usr/bin/yes\n");
    const beganMs = performance.now();
    expect(withUnitSettings({ ...source, env: { PATH } }).unit).toBeUndefined();
    expect(performance.now() - beganMs).toBeLessThan(15_000);
  });
});

test("config check says when the service may have settings that this user cannot see", () => {
  const unseen = { why: "this user may not read them", remedy: "run as root" };
  expect(checkFiles(configOf({}, { unseen }), { clock: systemClock })).toEqual({
    warnings: ["The service may have other settings: this user may not read them; run as root"],
  });
});

test("config check does not examine a certificate that only systemd can read", () => {
  const { certFile, keyFile } = makeCertificate(line.folder, "closed", 60);
  const check = (isCopy?: true) =>
    checkFiles({ ...configOf({}), tls: { certFile, keyFile, isCopy } }, { clock: systemClock });
  chmodSync(keyFile, 0);
  asNobody(() => {
    expect(check(true)).toEqual({ warnings: [expect.stringContaining("The certificate was not checked: ")] });
    expect(check().fault?.sentence).toContain("this user may not read it");
  });
});

describe("the default data folder", () => {
  const source = { workingFolder: "/", isRoot: true };
  const folderOf = (given: Omit<ConfigSource, "workingFolder" | "isRoot">) => {
    const config = readConfig(withUnitSettings({ ...source, ...given }));
    return isRefusal(config) ? config.sentence : config.dataDir;
  };

  test("is never used if systemd cannot be asked, because the service may have another one", () => {
    const PATH = standIn("unclear", render({ state: "elsewhere" }), 0, "null\n");
    const refused =
      "Cannot choose the data folder: the service may have another one than /var/lib/claviger: Cannot read systemd's " +
      "list of the services: its form is unknown; run `systemctl start dbus`, and check that `busctl` works, or name " +
      "the folder with --data-dir";
    expect(folderOf({ env: { PATH } })).toBe(refused);
    expect(folderOf({ env: { PATH }, envFile: "/dev/null" })).toBe(refused);
    expect(folderOf({ env: { PATH }, flags: { CLAVIGER_DATA_DIR: "/srv" } })).toBe("/srv");
    // A settings file of the command has every setting that it needs.
    const own = withUnitSettings({
      ...source,
      env: { PATH },
      envFile: line.write("own.env", "CLAVIGER_DATA_DIR=/own\n"),
    });
    expect(own.unseen).toBeUndefined();
    expect(folderOf(own)).toBe("/own");
  });

  test("is refused for a command with settings or credentials of its own, while a unit names another one", () => {
    const file = line.write("elsewhere.env", "CLAVIGER_DATA_DIR=/srv/claviger\n");
    const refused = (folder: string) =>
      `Cannot choose the data folder: claviger.service works in ${folder}, and this command names none; name the ` +
      "folder with --data-dir";
    for (const [name, unit, folder] of [
      ["by-state", { state: "elsewhere" }, "/var/lib/elsewhere"],
      ["by-file", { state: "claviger", envFiles: [file] }, "/srv/claviger"],
      ["by-environment", { state: "claviger", environment: ["CLAVIGER_DATA_DIR=/srv/old"] }, "/srv/old"],
    ] as const) {
      const PATH = standIn(name, render(unit));
      // A command without settings of its own reads no Environment=, and is refused later.
      expect(folderOf({ env: { PATH } })).toBe(folder === "/srv/old" ? "/var/lib/claviger" : folder);
      expect(folderOf({ env: { PATH }, envFile: "/dev/null" })).toBe(refused(folder));
      expect(folderOf({ env: { PATH, CREDENTIALS_DIRECTORY: "/run/credentials/x" } })).toBe(refused(folder));
      expect(folderOf({ env: { PATH }, envFile: file })).toBe("/srv/claviger");
    }
  });

  test("is used if the unit names the same one, or none", () => {
    const same = standIn("same", render({ state: "claviger", environment: ["CLAVIGER_PORT=1"] }));
    const none = standIn("none", render({}));
    for (const PATH of [same, none]) {
      expect(folderOf({ env: { PATH }, envFile: "/dev/null" })).toBe("/var/lib/claviger");
      expect(folderOf({ env: { PATH } })).toBe("/var/lib/claviger");
    }
  });
});

/** Returns the value of `StateDirectory=` for this data folder, which is not below /var/lib. */
const stateOf = (dataDir: string) => join("../..", dataDir);

describe("commands, while the service of the unit is stopped", () => {
  const credentials: Record<string, string> = {};
  let settings = "";
  let PATH = "";
  const run = (...args: string[]) => line.run(args, { env: { PATH }, isRoot: false });

  let host: GitHubStandIn;
  afterAll(() => host.close());

  beforeAll(async () => {
    host = await startGitHubStandIn({ clock: systemClock, folder: line.folder });
    const { appId, installationId, repository, apiUrl } = host.settings;
    const { certFile, keyFile } = makeCertificate(line.folder, "licenses.example.org", 60);
    Object.assign(credentials, {
      "claviger-secret": line.write("kept-secret", SECRET),
      "claviger-github-key": line.write("app.pem", APP_KEYS.privateKey),
      "claviger-tls-cert": certFile,
      "claviger-tls-key": keyFile,
    });
    settings = line.write(
      "unit.env",
      `CLAVIGER_GITHUB_APP_ID=${appId}\nCLAVIGER_GITHUB_INSTALLATION_ID=${installationId}\n` +
        `CLAVIGER_GITHUB_REPOSITORY=${repository}\nCLAVIGER_GITHUB_URL=${apiUrl}\nCLAVIGER_LOG_FORMAT=json\n` +
        `CLAVIGER_PORT=1\nCLAVIGER_HOST=127.0.0.9\nCLAVIGER_TLS_CERT=${certFile}\nCLAVIGER_TLS_KEY=${keyFile}\n`,
    );
    const unit = { envFiles: [settings, "/nowhere/else.env"], credentials, state: stateOf(line.dataDir) };
    PATH = standIn("stopped", render({ ...unit, environment: ["TZ=Europe/Berlin"] }));
    expect(await run("migrate")).toMatchObject({ status: 0, err: "" });
  });
  beforeEach(() => host.behave({ kind: "grant" }));

  test("show in config check the settings of the unit's file, its data folder and its credentials", async () => {
    const { status, out, err } = await run("config", "check", "--json");
    expect([status, err]).toEqual([0, ""]);
    const { settings: shown } = JSON.parse(out) as { settings: { name: string }[] };
    const of = (name: string) => shown.find((setting) => setting.name === name);
    expect(of("CLAVIGER_PORT")).toMatchObject({ value: "1", source: settings });
    expect(of("CLAVIGER_DATA_DIR")).toMatchObject({ value: line.dataDir, source: "claviger.service" });
    expect(of("CLAVIGER_TLS_CERT")).toMatchObject({
      value: credentials["claviger-tls-cert"],
      source: settings,
    });
    expect(of("CLAVIGER_GITHUB_PRIVATE_KEY_FILE")).toMatchObject({
      value: credentials["claviger-github-key"],
      source: "credential",
    });
    expect(of("CLAVIGER_SECRET_FILE")).toMatchObject({ value: "claviger-secret", source: "credential" });
  });

  test("find database and secret, and doctor the certificate and the App's key", async () => {
    const token = await line.run(["installer", "set-token"], {
      env: { PATH },
      isRoot: false,
      input: "a-token",
    });
    expect([token.status, token.out]).toEqual([0, "The repository token is set\n"]);
    const backup = join(line.folder, "nightly.tar.zst");
    expect(await run("backup", backup, "--with-secret")).toMatchObject({ status: 0, err: "" });

    const { status, findings, of } = readFindings(await run("doctor", "--json"));
    expect(findings.filter(({ state }) => state === "fail" || state === "skip")).toEqual([]);
    expect(of("unit")).toBeUndefined();
    expect(status).toBe(0);
    expect(of("tls")?.message).toStartWith("the certificate is good until ");
    expect(of("github app")?.message).toBe("App 190219 mints tokens for core-package");
    expect(host.seen.length).toBeGreaterThan(0);
    expect(of("secret")?.message).toBe("the secret that sealed this database");
    expect(of("service")?.message).toBe(`no service runs from ${line.dataDir}`);
  });

  test("let doctor report that the GitHub host refuses or does not answer", async () => {
    const appFinding = async () => {
      const { status, of } = readFindings(await run("doctor", "--json"));
      return { status, token: of("installer token")?.state, ...of("github app") };
    };
    host.behave({ kind: "answer", status: 404 });
    expect(await appFinding()).toMatchObject({
      status: 1,
      state: "fail",
      token: "fail",
      message: expect.stringContaining("CLAVIGER_GITHUB_INSTALLATION_ID"),
    });
    host.behave({ kind: "answer", status: 401 });
    expect(await appFinding()).toMatchObject({ status: 1, state: "fail" });
    host.behave({ kind: "cut", after: "request" });
    expect(await appFinding()).toMatchObject({
      status: 0,
      state: "warn",
      token: "warn",
      remedy: expect.stringContaining("check whether this machine reaches"),
    });
    host.behave({ kind: "answer", status: 429 });
    expect((await appFinding()).remedy).toStartWith("wait:");
    host.behave({ kind: "answer", status: 500 });
    expect((await appFinding()).remedy).toEndWith("the service tries again");
  });

  // Root may read every file.
  test.skipIf(process.getuid?.() === 0)(
    "let doctor warn if the unit passes on another key than the settings name",
    async () => {
      const { certFile, keyFile } = makeCertificate(line.folder, "other", 60);
      const file = line.write("other.env", `CLAVIGER_TLS_CERT=${certFile}\nCLAVIGER_TLS_KEY=${keyFile}\n`);
      chmodSync(keyFile, 0);
      const find = async (key: string) => {
        const passed = { "claviger-tls-cert": certFile, "claviger-tls-key": key };
        const unit = { envFiles: [file], credentials: passed, state: stateOf(line.dataDir) };
        const env = { PATH: standIn(`passes-${key.replaceAll("/", "-")}`, render(unit)) };
        return readFindings(await line.run(["doctor", "--json"], { env, isRoot: false })).of("configuration");
      };
      expect((await find(keyFile))?.state).toBe("ok");
      expect(await find("/etc/old.key")).toEqual({
        name: "configuration",
        state: "warn",
        message: `claviger.service passes on /etc/old.key, but the settings name ${keyFile}`,
        remedy: "print the unit again, with the files that the settings name: `claviger guide systemd`",
      });
    },
  );
});

describe("an old unit, with settings in Environment=", () => {
  const other = useCommandLine();
  let settings = "";
  const unitOf = (environment: readonly string[], more: Unit = {}) => ({
    environment,
    envFiles: [settings, "/nowhere/else.env"],
    state: stateOf(other.dataDir),
    ...more,
  });
  const on = (name: string, unit: Unit, list?: string) => {
    const env = { PATH: standIn(name, render(unit), 0, list) };
    return (...args: string[]) => other.run(args, { env, isRoot: false });
  };
  const remedyOf = (unit: string) =>
    `put those of ${unit} into ${settings}, with the values that \`systemctl cat ${unit}\` shows, then print the unit ` +
    "again (`claviger guide systemd`)";

  beforeEach(() => {
    settings = other.write("old.env", "CLAVIGER_LOG_FORMAT=json\n");
  });

  test("gives commands none of them: config check warns, and doctor names the unit", async () => {
    const run = on("old", unitOf(["TZ=Europe/Berlin", "CLAVIGER_PORT=1", "CLAVIGER_LOG_FORMAT=text"]));
    const what =
      "claviger.service has CLAVIGER_PORT, CLAVIGER_LOG_FORMAT in Environment=, which commands do not read";
    expect(refusalOf(await run("keys", "list"))).toStartWith("Cannot find a database in ");

    const checked = await run("config", "check", "--json");
    const remedy = remedyOf("claviger.service");
    const { settings: shown, warnings } = JSON.parse(checked.out) as {
      settings: { name: string }[];
      warnings: string[];
    };
    expect([checked.status, warnings]).toEqual([0, [`${what}: ${remedy}`]]);
    const of = (name: string) => shown.find((setting) => setting.name === name);
    expect(of("CLAVIGER_PORT")).toMatchObject({ value: "8080", source: "default" });
    expect(of("CLAVIGER_DATA_DIR")).toMatchObject({ value: other.dataDir, source: "claviger.service" });
    expect(of("CLAVIGER_LOG_FORMAT")).toMatchObject({ value: "json", source: settings });

    expect(readFindings(await run("doctor", "--json")).of("unit")).toEqual({
      name: "unit",
      state: "warn",
      message: what,
      remedy,
    });
  });

  const sentenceOf = (name: string) =>
    `claviger: Cannot work on another installation than the service: claviger.service has ${name} in Environment=, which ` +
    `commands do not read; nothing was changed; ${remedyOf("claviger.service")}\n`;

  test.each([
    ["DATABASE_URL", "postgres://me:hidden-word@127.0.0.1:9/c"],
    ["CLAVIGER_MODELS_DIR", "/srv/models"],
    ["CLAVIGER_MODELS_S3", "https://s3.example.org/models"],
    ["CLAVIGER_SECRET", SECRET],
    ["CLAVIGER_SECRET_FILE", "/etc/claviger/secret"],
  ])("ends a command with 78 if %s there says which installation the service has", async (name, value) => {
    const run = on(`names-${name}`, unitOf([`${name}=${value}`]));
    expect(await run("keys", "list")).toEqual({ status: 78, out: "", err: sentenceOf(name) });
  });

  test("ends every command with 78 if the service has another data folder from there, and changes nothing", async () => {
    const untouched = join(other.folder, "untouched");
    const environment = ["CLAVIGER_DATA_DIR=/srv/claviger"];
    const run = on("names-folder", unitOf(environment, { state: stateOf(untouched) }));
    const refused = { status: 78, err: sentenceOf("CLAVIGER_DATA_DIR") };
    for (const command of [["migrate"], ["keys", "list"], ["backup", "no.tar.zst"], ["config", "check"]])
      expect(await run(...command)).toMatchObject(refused);
    const examined = readFindings(await run("doctor", "--json"));
    expect(examined.status).toBe(78);
    expect(examined.findings.map((each) => each.name)).toEqual(["program", "unit"]);
    expect(examined.of("unit")).toEqual({
      name: "unit",
      state: "fail",
      message:
        "commands would work on another installation than the service: claviger.service has CLAVIGER_DATA_DIR in " +
        "Environment=, which commands do not read",
      remedy: remedyOf("claviger.service"),
    });
    expect(existsSync(untouched)).toBe(false);

    // The settings file counts before Environment=, for the service, too.
    writeFileSync(settings, `CLAVIGER_DATA_DIR=${other.dataDir}\n`);
    expect((await run("config", "check")).status).toBe(0);
  });

  test("refuses no command that has the same installation without it", async () => {
    const secret = other.write("kept-secret", SECRET);
    const run = on(
      "same-installation",
      unitOf(
        [
          `CLAVIGER_DATA_DIR=${other.dataDir}`,
          "CLAVIGER_SECRET_FILE=/run/credentials/claviger.service/claviger-secret",
        ],
        { credentials: { "claviger-secret": secret } },
      ),
    );
    expect((await run("config", "check")).status).toBe(0);
    const elsewhere = on("data-dir", unitOf(["CLAVIGER_DATA_DIR=/srv/claviger"]));
    expect((await elsewhere("config", "check", "--data-dir", other.dataDir)).status).toBe(0);
  });

  test("is found among all services of the template, also behind the first one", async () => {
    const envFiles = ["/etc/claviger/none.env", settings];
    const list = renderList("claviger@1.service", "claviger@2.service");
    const PATH = standIn("old-template", render(unitOf([], { envFiles })), 0, list);
    const isNow = (file: string, unit: Unit) => writeFileSync(join(PATH, file), render(unit));
    isNow(
      "second",
      unitOf(["CLAVIGER_HOST=127.0.0.9"], { envFiles: ["/etc/claviger/none.env", "/etc/two.env"] }),
    );
    const check = () => other.run(["config", "check"], { env: { PATH }, isRoot: false });
    expect((await check()).err).toBe(
      "claviger: claviger@2.service has CLAVIGER_HOST in Environment=, which commands do not read: put those of " +
        "claviger@2.service into /etc/two.env, with the values that `systemctl cat claviger@2.service` shows, then " +
        "print the unit again (`claviger guide systemd`)\n",
    );
    isNow("answer", unitOf(["CLAVIGER_PORT=1"], { envFiles }));
    isNow("second", unitOf(["CLAVIGER_DATA_DIR=/srv/two"]));
    const both = await check();
    expect([both.status, both.err]).toEqual([
      78,
      "claviger: Cannot work on another installation than the service: claviger@1.service has CLAVIGER_PORT, and " +
        "claviger@2.service has CLAVIGER_DATA_DIR in Environment=, which commands do not read; nothing was changed; " +
        `put those of claviger@1.service into ${settings} and those of claviger@2.service into /nowhere/else.env, with ` +
        "the values that `systemctl cat claviger@1.service claviger@2.service` shows, then print the unit again " +
        "(`claviger guide systemd`)\n",
    ]);
  });
});
