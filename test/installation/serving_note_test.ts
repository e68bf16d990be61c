import { describe, expect, test } from "bun:test";
import { parseUnitName } from "../../src/installation/serving_note.ts";

describe("parseUnitName()", () => {
  test.each([
    ["0::/system.slice/claviger.service\n", "claviger.service"],
    ["0::/a.slice/a-b.slice/claviger@two.service\n", "claviger@two.service"],
    ["12:cpu:/x\n1:name=systemd:/system.slice/claviger.service\n", "claviger.service"],
  ])("finds the unit of the system's systemd in %j", (cgroup, unit) => {
    expect(parseUnitName(cgroup)).toBe(unit);
  });

  test.each([
    ["0::/\n"],
    ["0::/system.slice\n"],
    ["0::/system.slice/claviger.service/below\n"],
    // A user who runs their own manager chooses the names of the units below it.
    ["0::/user.slice/user-1000.slice/user@1000.service/app.slice/claviger.service\n"],
    ["0::/system.slice/own.service/system.slice/claviger.service\n"],
    ["5:cpu:/system.slice/claviger.service\n"],
    ["0::/system.slice/../claviger.service/x.scope\n"],
  ])("finds no trustworthy unit in %j", (cgroup) => {
    expect(parseUnitName(cgroup)).toBeUndefined();
  });
});
