/** `claviger models add --file` and `models verify` while a service runs. */
import { beforeAll, describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { existsSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { refusalOf, usageErrorOf } from "../cli/command_line.ts";
import { testBytes } from "../support/hosted.ts";
import { BYTES, PUBLIC, SHA256, useModelStage } from "./model_stage.ts";

const { line, service, file, addArgs, storedPath, add, listed } = useModelStage();

beforeAll(async () => {
  expect((await add({ name: "hosted", file })).status).toBe(0);
});

const unfinished = () =>
  readdirSync(join(line.dataDir, "models")).filter((name) => name.startsWith("unfinished-"));

describe("claviger models add --file", () => {
  test("stores the file, and a client downloads it from the address in the list", async () => {
    const { status, out, err } = await add({ name: "offered", file });
    expect({ status, err }).toEqual({ status: 0, err: "" });
    expect(out).toContain(`checksum          sha256:${SHA256}\n`);
    const model = await listed("offered");
    expect(model).toMatchObject({ version: "1.0.0", size_mb: 2.35, checksum: `sha256:${SHA256}` });
    const address = String(model?.download_url);
    expect(address).toStartWith(
      "https://licenses.example.org/v1/models/download/offered/1.0.0/p300.onnx?key=key_",
    );
    const response = await fetch(address.replace("https://licenses.example.org", service.url));
    expect(hash("sha256", new Uint8Array(await response.arrayBuffer()))).toBe(SHA256);
  });

  test("stores a file that comes through standard input, under the name of --file-name", async () => {
    const args = [...addArgs({ name: "piped", file: "-" }), "--file-name", "speller.onnx"];
    expect(await line.here(args, { env: PUBLIC, input: BYTES })).toMatchObject({ status: 0, err: "" });
    expect(await listed("piped")).toMatchObject({
      size_mb: 2.35,
      checksum: `sha256:${SHA256}`,
      download_url: expect.stringContaining("/piped/1.0.0/speller.onnx?"),
    });
    const none = await line.here(addArgs({ name: "none", file: "-" }), { env: PUBLIC });
    expect(refusalOf(none)).toBe("Cannot add model: standard input is empty");
    expect(unfinished()).toEqual([]);
    for (const name of ["a/b", "-", ""])
      usageErrorOf(await line.here([...args, "--file-name", name], { env: PUBLIC, input: BYTES }));
  });

  test("leaves the file readable for the service, with the owner of the data folder", async () => {
    const { uid, gid } = statSync(line.dataDir);
    expect(statSync(storedPath(SHA256))).toMatchObject({ uid, gid });
    expect(statSync(storedPath(SHA256)).mode & 0o777).toBe(0o640);
  });

  test("shows a size above 0 for a small file, also when an older program recorded 0", async () => {
    const small = join(line.folder, "small.onnx");
    writeFileSync(small, testBytes(1_234, 9));
    expect((await add({ name: "small", file: small })).status).toBe(0);
    expect(await listed("small")).toMatchObject({
      size_mb: 0.001234,
      download_url: expect.stringContaining("/v1/models/download/small/1.0.0/small.onnx?"),
    });
    expect((await add({ name: "zero", file: small, "size-mb": "0" })).status).toBe(0);
    expect(await listed("zero")).toMatchObject({ size_mb: 0.001234 });
  });

  test("--json prints the recorded model, and --size-mb overrides the size of the file", async () => {
    const { out } = await line.here([...addArgs({ name: "json", file, "size-mb": "2.4" }), "--json"], {
      env: PUBLIC,
    });
    expect(JSON.parse(out)).toEqual({
      name: "json",
      version: "1.0.0",
      requires_license: "free",
      size_mb: 2.4,
      checksum: `sha256:${SHA256}`,
    });
  });

  test("reads a path relative to the operator's folder, and stores the same bytes once", async () => {
    const { status } = await add({ name: "relative", file: "p300.onnx" });
    expect(status).toBe(0);
    expect(readdirSync(join(line.dataDir, "models", SHA256.slice(0, 2)))).toEqual([SHA256]);
  });

  test("shows a progress bar on a terminal, up to the end, and none elsewhere", async () => {
    const { err } = await add({ name: "bar", file }, { isTerminal: true });
    expect(err).toStartWith("\r[");
    expect(err).toEndWith(`\r[${"#".repeat(40)}] 3 of 3 MB\n`);
    expect(err.match(/\n/g)).toHaveLength(1);
  });

  test("writes an audit row with the checksum", async () => {
    const rows = await line.json(["audit", "--limit", "50"]);
    const row = rows.find(({ after }: { after: { name?: string } }) => after?.name === "hosted");
    expect(row).toMatchObject({ action: "model.add", after: { version: "1.0.0", checksum: SHA256 } });
  });

  test("refuses a file when clients would have no address to download it from", async () => {
    const sentence = refusalOf(await add({ name: "nowhere", file }, { env: {} }));
    expect(sentence).toStartWith(
      "Cannot add model: clients need an address to download its file; set CLAVIGER_PUBLIC_URL",
    );
  });

  for (const [what, fields] of [
    ["both a file and an address", { file, url: "https://a.example/m" }],
    ["a file and a checksum", { file, sha256: SHA256 }],
  ] as const) {
    test(`refuses ${what}`, async () => {
      const why = usageErrorOf(await add({ name: "both", ...fields }));
      expect(why).toBe("give either --file, or --url and --sha256; see `claviger models add --help`");
    });
  }

  test("refuses --file-name without --file", async () => {
    const elsewhere = { url: "https://a.example/m", sha256: SHA256, "size-mb": "1" };
    const why = usageErrorOf(await add({ name: "elsewhere", ...elsewhere, "file-name": "a.onnx" }));
    expect(why).toStartWith("--file-name needs --file: the name at another address is part of --url;");
  });

  for (const [what, fields] of [
    ["an add without both", {}],
    ["an address without checksum and size", { url: "https://a.example/m" }],
    ["an address without size", { url: "https://a.example/m", sha256: SHA256 }],
    ["a checksum alone", { sha256: SHA256, "size-mb": "1" }],
  ] as const) {
    test(`requires a file or an address, and refuses ${what}`, async () => {
      const why = usageErrorOf(await add({ name: "neither", ...fields }));
      expect(why).toBe(
        "give --file, or all of --url, --sha256 and --size-mb; see `claviger models add --help`",
      );
    });
  }

  test("still registers a model at an address elsewhere", async () => {
    const fields = { name: "elsewhere", url: "https://a.example/m", sha256: SHA256, "size-mb": "1.5" };
    expect((await add(fields, { env: {} })).status).toBe(0);
    expect(await listed("elsewhere")).toMatchObject({ download_url: "https://a.example/m", size_mb: 1.5 });
  });

  test("refuses an existing version and a wrong field before it copies the file", async () => {
    const other = line.write("other.onnx", "other bytes");
    const stored = () => existsSync(storedPath(hash("sha256", "other bytes")));
    expect(refusalOf(await add({ name: "hosted", file: other }))).toBe(
      "Cannot add model: hosted 1.0.0 exists, and a version never changes; give a new version",
    );
    expect(usageErrorOf(await add({ name: "a b", file: other }))).toContain("It must be letters");
    const owner = `usr_${"0".repeat(32)}`;
    const custom = { name: "custom", file: other, "requires-license": "commercial", owner };
    expect(refusalOf(await add(custom))).toContain("no account has the id or e-mail usr_0");
    expect(refusalOf(await add({ ...custom, name: "hosted", version: "2" }))).toContain("no account");
    expect(stored()).toBe(false);
  });

  test("refuses a file that it cannot read, and names the file", async () => {
    const nothing = join(line.folder, "nothing");
    expect(refusalOf(await add({ name: "x", file: nothing }))).toBe(
      `Cannot add model: ${nothing}: there is no such file`,
    );
    expect(refusalOf(await add({ name: "x", file: line.folder }))).toBe(
      `Cannot add model: ${line.folder}: it is not a file`,
    );
    expect(await listed("x")).toBeUndefined();
  });

  test("leaves no model and no file when it is interrupted", async () => {
    const bytes = testBytes(3_000_000, 77);
    writeFileSync(join(line.folder, "late.onnx"), bytes);
    const sentence = refusalOf(await add({ name: "late", file: "late.onnx" }, { signal: "SIGINT" }));
    expect(sentence).toBe("Stopped by SIGINT: nothing was changed");
    expect(await listed("late")).toBeUndefined();
    expect(existsSync(storedPath(hash("sha256", bytes)))).toBe(false);
    expect(unfinished()).toEqual([]);
  });
});

describe("claviger models verify", () => {
  test("reports every file as good, once for each version", async () => {
    await add({ name: "far", url: "https://a.example/m", sha256: SHA256, "size-mb": "1" });
    for (const version of ["1.0.0", "2.0.0"]) await add({ name: "verified", file, version });
    const { files, unnamed } = await line.json(["models", "verify"]);
    expect(files).toContainEqual({
      model: "hosted 1.0.0",
      state: "good",
      bytes: BYTES.length,
      checksum: `sha256:${SHA256}`,
    });
    expect(files.filter(({ state }: { state: string }) => state !== "good")).toEqual([]);
    const models = files.map(({ model }: { model: string }) => model);
    expect(models).toEqual([...new Set(models)]);
    expect(models).toEqual(expect.arrayContaining(["verified 1.0.0", "verified 2.0.0"]));
    expect(models).not.toContain("far 1.0.0");
    expect(unnamed).toEqual([]);
  });

  test("ends with status 1, and names changed and missing files in its error and its output", async () => {
    await add({ name: "a", file });
    const path = storedPath(SHA256);
    const damaged = Uint8Array.from(BYTES);
    damaged[1_000_000] = (damaged[1_000_000] ?? 0) ^ 1;
    writeFileSync(path, damaged);
    const changed = await line.here(["models", "verify", "--json"]);
    expect(changed.status).toBe(1);
    expect(changed.err).toMatch(/: a 1.0.0 is changed, (.*, )?hosted 1.0.0 is changed/);
    expect(JSON.parse(changed.out).files[0].state).toBe("changed");
    renameSync(path, `${path}.away`);
    const missing = await line.here(["models", "verify"]);
    expect(missing.status).toBe(1);
    expect(missing.err).toContain("hosted 1.0.0 is missing");
    expect(missing.out).toContain("missing");
    renameSync(`${path}.away`, path);
    writeFileSync(path, BYTES);
    expect((await line.here(["models", "verify"])).status).toBe(0);
  });

  test("reports a stored file that no version names, and still ends with status 0", async () => {
    const stray = join(line.dataDir, "models", "zz", "stray");
    await Bun.write(stray, "x");
    const { status, err } = await line.here(["models", "verify"]);
    expect({ status, err }).toEqual({ status: 0, err: `No version uses ${stray}: you may delete it\n` });
    expect((await line.json(["models", "verify"])).unnamed).toEqual(["zz/stray"]);
    rmSync(stray);
  });
});
