/** A bundle with a model of 300 MB: made, verified and downloaded without holding it in memory. */
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { useCommandLine } from "../../cli/use_command_line.ts";
import { type ServiceProcess, SOURCE, spawnService, toServeCommand } from "../../support/service_process.ts";

setDefaultTimeout(120_000);

const MODEL_BYTES = 300_000_000;
/** A part of a file has 1 MB, and many parts wait for the collector on a busy machine. With 1,500 MB it is hardly more. */
const MOST_GROWTH_BYTES = 200_000_000;

const line = useCommandLine({ prepared: true });
let keyId: string;

beforeAll(async () => {
  // The first start makes the root secret.
  await (await line.serve()).stop();
  const file = line.write("large.onnx", "begins with this");
  truncateSync(file, MODEL_BYTES);
  const fields = ["--type", "SvcLDA", "--n-features", "4", "--n-classes", "2", "--paradigm", "p300"];
  const model = [
    "--name",
    "large",
    "--version",
    "1",
    ...fields,
    "--requires-license",
    "free",
    "--file",
    file,
  ];
  const env = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org" };
  await line.json(["models", "add", ...model], { env });
  rmSync(file);
  ({ id: keyId } = await line.json(["keys", "issue", "--email", "ada@example.org", "--tier", "research"]));
});

/** Runs a command as a process of its own; returns the most memory that it had. */
async function run(args: readonly string[]): Promise<number> {
  const place = ["--data-dir", line.dataDir, "--env-file", "/dev/null"];
  const child = Bun.spawn([...SOURCE, ...args, ...place], {
    cwd: line.folder,
    stderr: "pipe",
    stdout: "pipe",
  });
  const [status, err] = [await child.exited, await new Response(child.stderr).text()];
  expect([status, status === 0 ? "" : err]).toEqual([0, ""]);
  return child.resourceUsage()?.maxRSS ?? Number.NaN;
}

test("the commands need little more memory for it than for a bundle without models", async () => {
  const make = (to: string, ...more: string[]) =>
    run(["bundle", "make", "--key", keyId, "--to", to, ...more]);
  const small = await make("small.tar", "--without-models");
  const large = await make("large.tar");
  const bytes = statSync(join(line.folder, "large.tar")).size;
  expect(bytes).toBeGreaterThan(MODEL_BYTES);
  expect(large - small).toBeLessThan(MOST_GROWTH_BYTES);
  const verified = await run(["bundle", "verify", "large.tar"]);
  expect(verified - small).toBeLessThan(MOST_GROWTH_BYTES);
  console.log(
    `The most memory of a command, in MB: ${[small, large, verified].map((each) => Math.round(each / 1e6))}`,
  );
  rmSync(join(line.folder, "large.tar"));
});

test("the service needs little more memory while it answers one", async () => {
  const { token } = await line.json(["tokens", "issue", "--name", "shop", "--scope", "keys:issue"]);
  const { dataDir } = line;
  const command = toServeCommand(SOURCE, ["--data-dir", dataDir, "--admin-listen", "127.0.0.1:0"]);
  const service = spawnService(command, { cwd: line.folder, env: { PATH: process.env.PATH ?? "" }, dataDir });
  try {
    await service.untilHealthy();
    const { admin } = JSON.parse(readFileSync(join(dataDir, "serving"), "utf8"));
    const download = async (models?: readonly string[]) => {
      const answer = await fetch(`http://127.0.0.1:${admin.port}/admin/v1/keys/${keyId}/bundle`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}` },
        body: JSON.stringify({ models }),
      });
      expect(answer.status).toBe(200);
      let bytes = 0;
      for await (const chunk of answer.body ?? []) {
        bytes += chunk.length;
      }
      return bytes;
    };
    await download([]);
    const before = mostResidentBytes(service);
    expect(await download()).toBeGreaterThan(MODEL_BYTES);
    const grown = mostResidentBytes(service) - before;
    console.log(`The most memory of the service grew by ${Math.round(grown / 1e6)} MB`);
    expect(grown).toBeLessThan(MOST_GROWTH_BYTES);
  } finally {
    await service.end();
  }
});

/** Returns the most memory that a process has had. */
function mostResidentBytes({ pid }: ServiceProcess): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) * 1_024;
}
