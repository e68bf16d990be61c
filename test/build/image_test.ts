/**
 * The image of a release, made of small folders in place of Debian's packages and the executable. These tests need
 * umoci and dpkg-deb; where they are missing, CI fails and others leave the tests out.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { listDebianPackages } from "../../src/build/debian_packages.ts";
import { writeImage } from "../../src/build/image.ts";
import { makeBaseRoot, makeProgramRoot, toLabels } from "../../src/build/release_image.ts";
import { requireTools, runTool } from "../../src/build/run_tool.ts";
import { useFolder } from "../support/use_folder.ts";

const SECONDS = 1_700_000_000;
const TIME = "2023-11-14 22:13:20";
const folder = useFolder();
let blobs: string;

/** A blob of the image as JSON, by a digest such as `sha256:…`. */
const readBlob = (digest: string) => JSON.parse(readFileSync(join(blobs, digest.slice(7)), "utf8"));

/** Builds the image of two small roots in a folder of that name; the paths are made in this order. */
function build(name: string, paths: readonly string[]): string {
  const [base, program] = [join(folder, name, "base"), join(folder, name, "program")];
  for (const path of paths) mkdirSync(join(base, path), { recursive: true });
  for (const path of paths) writeFileSync(join(base, path, "file"), path);
  symlinkSync("file", join(base, "bin/sh"));
  mkdirSync(join(program, "usr"), { recursive: true });
  writeFileSync(join(program, "usr/claviger"), "a program");
  chmodSync(join(program, "usr/claviger"), 0o755);
  const outfile = join(folder, `${name}.tar`);
  const layers = [
    { folder: base, comment: "the base" },
    { folder: program, comment: "the program" },
  ];
  const labels = toLabels({ version: "1.2.3", commit: "0123456789ab", createdAtSeconds: SECONDS });
  writeImage(
    { name: "claviger:1.2.3", architecture: "arm64", createdAtSeconds: SECONDS, layers, labels },
    outfile,
  );
  return outfile;
}

const TOOLS = ["umoci", "tar", "dpkg-deb"];
const makesImages = process.env.CI !== undefined || TOOLS.every((tool) => Bun.which(tool) !== null);

beforeAll(() => {
  if (!makesImages) return;
  requireTools(TOOLS);
  const image = build("one", ["bin", "data", "tmp"]);
  mkdirSync(join(folder, "layout"));
  runTool(["tar", "-xf", image], join(folder, "layout"));
  blobs = join(folder, "layout/blobs/sha256");
});

/** The manifest and the configuration, found from the index as an engine does. */
function readImage() {
  const index = JSON.parse(readFileSync(join(folder, "layout/index.json"), "utf8"));
  const manifest = readBlob(index.manifests[0].digest);
  return { index, manifest, config: readBlob(manifest.config.digest) };
}

/** The entries of a layer, such as `drwxr-xr-x 0/0 ./bin/`; each has the image's time. */
function readLayer(number: number): string[] {
  const path = join(blobs, readImage().manifest.layers[number].digest.slice(7));
  const lines = runTool(["tar", "-tvzf", path, "--numeric-owner", "--full-time", "--utc"], folder)
    .trim()
    .split("\n");
  return lines.map((line) => {
    const [mode, owner, , date, time, ...name] = line.split(/ +/);
    expect(`${date} ${time}`).toBe(TIME);
    return [mode, owner, ...name].join(" ");
  });
}

describe.skipIf(!makesImages)("writeImage()", () => {
  test("names user, volume, entry point, stop signal, port and platform", () => {
    const { index, config } = readImage();
    expect(index.manifests).toMatchObject([
      { annotations: { "org.opencontainers.image.ref.name": "claviger:1.2.3" } },
    ]);
    expect(config).toMatchObject({
      created: "2023-11-14T22:13:20Z",
      os: "linux",
      architecture: "arm64",
      config: {
        User: "10001:10001",
        Entrypoint: ["/usr/bin/claviger"],
        Cmd: ["serve"],
        Env: [
          "PATH=/usr/bin:/bin",
          "CLAVIGER_DATA_DIR=/data/claviger",
          "TMPDIR=/data",
          "CLAVIGER_HOST=0.0.0.0",
        ],
        Volumes: { "/data": {} },
        ExposedPorts: { "8080/tcp": {} },
        StopSignal: "SIGTERM",
      },
      history: [
        { created: "2023-11-14T22:13:20Z", created_by: "the base" },
        { created: "2023-11-14T22:13:20Z", created_by: "the program" },
      ],
    });
  });

  test("labels the image with what the release is, its version, its commit and their time", () => {
    expect(readImage().config.config.Labels).toEqual({
      "org.opencontainers.image.title": "claviger",
      "org.opencontainers.image.description": "Licensing and model-registry service",
      "org.opencontainers.image.version": "1.2.3",
      "org.opencontainers.image.revision": "0123456789ab",
      "org.opencontainers.image.created": "2023-11-14T22:13:20.000Z",
    });
  });

  test("makes a layer of each folder, where only the volume belongs to the image's user", () => {
    expect(readLayer(0)).toEqual([
      "drwxr-xr-x 0/0 ./",
      "drwxr-xr-x 0/0 ./bin/",
      "-rw-r--r-- 0/0 ./bin/file",
      "lrwxr-xr-x 0/0 ./bin/sh -> file",
      "drwxr-xr-x 10001/10001 ./data/",
      "-rwxr-xr-x 10001/10001 ./data/file",
      "drwxrwxrwt 0/0 ./tmp/",
      "-rwxrwxrwt 0/0 ./tmp/file",
    ]);
    expect(readLayer(1)).toEqual([
      "drwxr-xr-x 0/0 ./",
      "drwxr-xr-x 0/0 ./usr/",
      "-rwxr-xr-x 0/0 ./usr/claviger",
    ]);
  });

  test("keeps no blob that the image does not use", () => {
    const { index, manifest } = readImage();
    const used = [index.manifests[0], manifest.config, ...manifest.layers].map(({ digest }) =>
      digest.slice(7),
    );
    expect(runTool(["ls"], blobs).trim().split("\n").sort()).toEqual(used.sort());
  });

  test("gives the same bytes again, in a folder of another length, in another order and with another umask", () => {
    const before = process.umask(0o077);
    try {
      const other = build("another-and-longer", ["tmp", "data", "bin"]);
      expect(readFileSync(other).equals(readFileSync(join(folder, "one.tar")))).toBe(true);
    } finally {
      process.umask(before);
    }
  });
});

describe.skipIf(!makesImages)("the image of a release", () => {
  test("holds libraries, shell, time zones, certificates, copyrights and users, and nothing else", async () => {
    const content = join(folder, "package");
    const files = {
      "DEBIAN/control":
        "Package: stand-in\nVersion: 1\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: stand-in\n",
      "bin/dash": "",
      "lib/libc.so.6": "",
      "sbin/adduser": "",
      "usr/lib/triplet/gconv/module": "",
      "usr/lib/triplet/libstdc++.so.6": "",
      "usr/share/zoneinfo/UTC": "",
      "usr/share/man/dash.1": "",
      "usr/share/doc/dash/copyright": "",
      "usr/share/doc/dash/changelog.gz": "",
      "usr/share/ca-certificates/mozilla/B.crt": "second\n",
      "usr/share/ca-certificates/mozilla/A.crt": "first",
    };
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(content, path, ".."), { recursive: true });
      writeFileSync(join(content, path), text);
    }
    symlinkSync("dash", join(content, "usr/share/doc/linked"));
    runTool(["chmod", "-R", "u=rwX,go=rX", content], folder);
    runTool(["dpkg-deb", "--root-owner-group", "--build", content, join(folder, "it.deb")], folder);
    const base = join(folder, "base");
    await makeBaseRoot(base, [join(folder, "it.deb")]);
    const found = runTool(["find", ".", "-not", "-type", "d"], base).trim().split("\n").sort();
    expect(found).toEqual([
      "./bin/dash",
      "./etc/group",
      "./etc/nsswitch.conf",
      "./etc/passwd",
      "./etc/ssl/certs/ca-certificates.crt",
      "./lib/libc.so.6",
      "./usr/lib/triplet/libstdc++.so.6",
      "./usr/share/doc/dash/copyright",
      "./usr/share/zoneinfo/UTC",
    ]);
    const read = (path: string) => readFileSync(join(base, path), "utf8");
    expect(read("etc/ssl/certs/ca-certificates.crt")).toBe("first\nsecond\n");
    expect(read("etc/passwd")).toContain("\nclaviger:x:10001:10001::/data:/bin/sh\n");
    expect(read("etc/group")).toContain("\nclaviger:x:10001:\n");
    expect(runTool(["ls"], base).trim().split("\n")).toEqual([
      "bin",
      "data",
      "dev",
      "etc",
      "lib",
      "lib64",
      "proc",
      "sys",
      "tmp",
      "usr",
    ]);
  });

  test("has the notices of the program, and says that it came in an image", async () => {
    const executable = join(folder, "claviger");
    writeFileSync(executable, "a program");
    await makeProgramRoot(join(folder, "program"), { executable, notices: "The notices.\n" });
    const found = runTool(["find", ".", "-type", "f", "-printf", "%m %p\\n"], join(folder, "program"));
    expect(found).toContain("755 ./usr/bin/claviger\n");
    const read = (path: string) => readFileSync(join(folder, "program", path), "utf8");
    expect(read("usr/lib/claviger/origin")).toBe("image\n");
    expect(read("usr/share/doc/claviger/copyright")).toBe("The notices.\n");
  });

  test("has the same packages in the same versions on both platforms", () => {
    const [amd64, arm64] = [listDebianPackages("amd64"), listDebianPackages("arm64")];
    expect(amd64.map(({ name }) => name)).toEqual([
      "libc6",
      "libstdc++6",
      "libgcc-s1",
      "gcc-12-base",
      "dash",
      "ca-certificates",
      "tzdata",
    ]);
    const versions = (of: typeof amd64) => of.map(({ name, version }) => [name, version]);
    expect(versions(arm64)).toEqual(versions(amd64));
    for (const one of [...amd64, ...arm64]) expect(one.sha256).toMatch(/^[0-9a-f]{64}$/);
  });
});

describe("requireTools()", () => {
  test("says what to install, by the name of the package", () => {
    expect(() => requireTools(["tar", "no-such-tool"])).toThrow(
      "Cannot find no-such-tool; on Debian run: apt-get install no-such-tool",
    );
  });
});
