import { describe, expect, test } from "bun:test";
import { mask, readConsoleSteps } from "./console_blocks.ts";
import { readWalkSteps } from "./walk.ts";

describe("readConsoleSteps()", () => {
  test("reads commands, continued commands, and the output of each", () => {
    const block = "```console\n$ one |\n>   two\nout\n\nmore\n$ three\n```\n```\n$ not this\n```\n";
    expect(readConsoleSteps(block)).toEqual([
      { command: "one |\n  two", output: "out\n\nmore\n" },
      { command: "three", output: "" },
    ]);
  });
});

describe("readWalkSteps()", () => {
  test("reads the scripts of a page, each with the output shown right below it", () => {
    const page =
      "# One\n```sh\na\nb\n```\n\n```\nprinted\n```\n\n```sh\nc\n```\ntext\n\n```\nnot this\n```\n";
    expect(readWalkSteps(page)).toEqual([
      { script: "a\nb\n", shown: "printed\n" },
      { script: "c\n", shown: undefined },
    ]);
  });
});

describe("mask()", () => {
  test("masks the values that differ each time, and keeps the others", () => {
    const printed = `key_${"0".repeat(32)}  svc_live_${"a".repeat(48)}  at 2026-11-20T10:00:00Z, until 2026-11-21 09:00 UTC  used 5  svc_live_ab12…00ff`;
    expect(mask(printed)).toBe("key_ID  svc_live_KEY  at TIME, until TIME  used 5  svc_live_HINT");
    const machine =
      "on 2026-11-20 of 2026-11\r\n71 GB free for /tmp/x/claviger-data, 9 rows of 12 tables (3 kB, 0.1 s)";
    expect(mask(machine)).toBe("on DAY of MONTH\nSPACE free for FOLDER/claviger-data, ROWS of TABLES (TIME)");
  });
});
