/** The owner of a data folder: who may work there, and what root needs besides. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { closeDataFolder, makeDataFolder, refuseForeignFolder } from "../../../src/base/host/mod.ts";
import { isRefusal, type Refusal } from "../../../src/base/refusal.ts";
import { codeOf } from "../../../src/base/system_error.ts";
import { isRoot } from "../../support/is_root.ts";

const asRoot = isRoot("data folders of other users");
const OTHER = 65_534;
const me = process.getuid?.() ?? 0;

let top: string;
let dataDir: string;
beforeEach(() => {
  top = mkdtempSync(join(realpathSync(tmpdir()), "claviger-owner-"));
  chmodSync(top, 0o755);
  dataDir = join(top, "data");
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

/** Runs `work` as an ordinary user if root runs the test. */
function asUser<Result>(uid: number, work: () => Result): Result {
  if (me !== 0) return work();
  process.seteuid?.(uid);
  try {
    return work();
  } finally {
    process.seteuid?.(0);
  }
}

function make(path: string, uid: number, mode = 0o700): void {
  mkdirSync(path);
  chmodSync(path, mode);
  if (uid !== me) chownSync(path, uid, uid);
}

const sentenceOf = (refusal: unknown) => (isRefusal(refusal) ? (refusal as Refusal).sentence : undefined);

describe.if(asRoot)("refuseForeignFolder()", () => {
  test("refuses a folder of another user to root and to an ordinary user, with the line to type", () => {
    const asOwner = (owner = "?") => `run \`sudo -u ${owner} claviger\``;
    make(dataDir, OTHER, 0o711);
    for (const uid of [0, 12_345]) {
      expect(asUser(uid, () => sentenceOf(refuseForeignFolder(dataDir, asOwner)))).toBe(
        `Cannot work in the data folder ${dataDir}: it belongs to user nobody, and a data folder belongs to the ` +
          "user of the command; run `sudo -u nobody claviger`",
      );
    }
    expect(asUser(OTHER, () => refuseForeignFolder(dataDir))).toBeUndefined();
    chownSync(dataDir, 54_321, 0);
    expect(sentenceOf(refuseForeignFolder(dataDir, asOwner))).toEndWith("run `sudo -u #54321 claviger`");
  });

  test.each([
    [
      "a folder above it that belongs to another user",
      OTHER,
      0o755,
      /data belongs|\/above belongs to user nobody/,
    ],
    ["a folder above it into which others can write", 0, 0o777, /other users can write to .*; `chmod go-w /],
  ])("refuses root %s", (_, uid, mode, told) => {
    const above = join(top, "above");
    make(above, uid, mode);
    make(join(above, "data"), 0);
    expect(sentenceOf(refuseForeignFolder(join(above, "data")))).toMatch(told);
    expect(sentenceOf(makeDataFolder(join(above, "new")))).toMatch(told);
    expect(existsSync(join(above, "new"))).toBe(false);
  });

  test("tells a user who cannot look there to run the command as the user of the service", () => {
    make(join(top, "closed"), 0);
    const refusal = asUser(OTHER, () => refuseForeignFolder(join(top, "closed/data"), (owner) => `${owner}`));
    expect(sentenceOf(refusal)).toEndWith("a folder above it is closed to this user; undefined");
  });
});

describe("makeDataFolder()", () => {
  test("makes the folder closed, and the folders above it open, whatever the umask", () => {
    const path = join(dataDir, "deep/er");
    const mask = process.umask(0o002);
    expect(makeDataFolder(path)).toBe(dataDir);
    process.umask(mask);
    expect([path, dataDir].map((each) => statSync(each).mode & 0o777)).toEqual([0o700, 0o755]);
    expect(makeDataFolder(path)).toBeUndefined();
  });

  test.if(asRoot)(
    "makes it as root in a folder with the sticky bit, and refuses one that was made first",
    () => {
      chmodSync(top, 0o1777);
      expect(makeDataFolder(dataDir)).toBe(dataDir);
      make(join(top, "taken"), OTHER);
      expect(sentenceOf(makeDataFolder(join(top, "taken")))).toContain("it belongs to user nobody");
      expect(sentenceOf(makeDataFolder(join(top, "taken/below")))).toContain("taken belongs to user nobody");
    },
  );

  test.if(asRoot)(
    "makes its own folder or none while another user makes folders and links there",
    async () => {
      chmodSync(top, 0o1777);
      make(join(top, "theirs"), OTHER, 0o711);
      const line = "while :; do mkdir data; rmdir data; ln -s theirs data; rm -f data; done";
      const racer = Bun.spawn(
        ["timeout", "60", "setpriv", `--reuid=${OTHER}`, "--clear-groups", "sh", "-c", line],
        {
          cwd: top,
          stderr: "ignore",
        },
      );
      const outcomes = { own: 0, refused: 0 };
      for (const beganMs = performance.now(); performance.now() - beganMs < 2_000; ) {
        try {
          const made = makeDataFolder(dataDir);
          if (isRefusal(made)) outcomes.refused++;
          else {
            const { uid, mode } = lstatSync(dataDir);
            outcomes.own += uid === 0 && mode === 0o40700 ? 1 : Number.NaN;
            rmdirSync(dataDir);
          }
        } catch (error) {
          if (!["EEXIST", "ENOENT"].includes(codeOf(error) ?? "")) throw error;
        }
      }
      racer.kill();
      await racer.exited;
      expect(outcomes.own).toBeGreaterThan(0);
      expect(outcomes.refused).toBeGreaterThan(0);
    },
  );
});

describe("closeDataFolder()", () => {
  const modeOfData = () => statSync(dataDir).mode & 0o7777;

  test.each([0o777, 0o770, 0o702])("closes a data folder of this user with mode %o", (mode) => {
    make(dataDir, me, mode);
    writeFileSync(join(dataDir, "lock"), "");
    expect(closeDataFolder(dataDir)).toBe(true);
    expect(modeOfData()).toBe(me === 0 ? 0o711 : 0o700);
    expect(closeDataFolder(dataDir)).toBe(false);
  });

  test("closes an empty folder only if an installation begins in it", () => {
    make(dataDir, me, 0o1777);
    expect(closeDataFolder(dataDir)).toBe(false);
    expect(modeOfData()).toBe(0o1777);
    expect(closeDataFolder(dataDir, { begins: true })).toBe(true);
    expect(modeOfData()).toBe(me === 0 ? 0o711 : 0o700);
    chmodSync(dataDir, 0o777);
    expect(makeDataFolder(dataDir)).toBeUndefined();
    expect(modeOfData()).toBe(me === 0 ? 0o711 : 0o700);
  });

  test("refuses an open folder that is no data folder, and leaves it as it is", () => {
    make(dataDir, me, 0o1777);
    writeFileSync(join(dataDir, "anything"), "");
    for (const look of [closeDataFolder, makeDataFolder]) {
      expect(sentenceOf(look(dataDir))).toBe(
        `Cannot work in the data folder ${dataDir}: other users can write to it, and what it holds is not an ` +
          "installation; choose another folder",
      );
    }
    expect(sentenceOf(closeDataFolder(dataDir, { begins: true }))).toContain("not an installation");
    expect(modeOfData()).toBe(0o1777);
  });

  test("leaves a folder alone into which nobody else can write, and a missing one", () => {
    expect(closeDataFolder(dataDir)).toBe(false);
    make(dataDir, me, 0o755);
    expect(closeDataFolder(dataDir)).toBe(false);
    expect(statSync(dataDir).mode & 0o777).toBe(0o755);
  });

  test("refuses a file", () => {
    writeFileSync(dataDir, "");
    expect(sentenceOf(closeDataFolder(dataDir))).toBe(
      `Cannot work in the data folder ${dataDir}: it is a file; choose another folder`,
    );
  });

  test("refuses a folder that its user has closed to itself", () => {
    make(dataDir, me === 0 ? OTHER : me, 0o300);
    const sentence = asUser(OTHER, () => sentenceOf(closeDataFolder(dataDir)));
    // So that an ordinary user can remove it after the test.
    chmodSync(dataDir, 0o700);
    expect(sentence).toEndWith(`; \`chmod u+rwx ${dataDir}\``);
  });

  test.if(asRoot)("refuses an open folder in which another user has left something", () => {
    make(dataDir, 0, 0o777);
    asUser(OTHER, () => writeFileSync(join(dataDir, "secret"), ""));
    for (let round = 0; round < 2; round++)
      expect(sentenceOf(closeDataFolder(dataDir))).toContain("secret in it belongs to another user");
  });
});
