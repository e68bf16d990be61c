/** The README by the executable: its console blocks, its walk to a service, what it shows of the first start. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { mask, readConsoleSteps, readme, runConsoleSteps } from "../readme_console.ts";
import { readWalkSteps, type Walked, walk } from "../readme_walk.ts";
import { makeCertificate } from "../support/certificates.ts";
import { type GitHubStandIn, startGitHubStandIn } from "../support/github_stand_in.ts";
import { createPlace, type Place, waitFor } from "./executable.ts";
import { isBuilt } from "./installed.ts";

const TEST_LIMIT_MS = 120_000;
const isRoot = process.getuid?.() === 0;

describe.skipIf(!isBuilt)("README.md", () => {
  let place: Place;
  beforeAll(() => {
    place = createPlace();
  });
  afterAll(() => place.remove());

  test(
    "shows what an operator sees: every command, in order, answers as printed",
    async () => {
      const port = await freePort();
      const dataDir = join(place.folder, "claviger-data");
      const { address, out } = await place.serve(dataDir, {
        args: ["--demo", "--port", String(port)],
        env: { CLAVIGER_PUBLIC_URL: `http://127.0.0.1:${port}` },
      });
      const printed = await waitFor("the demo", () => (/api\/health\n/.test(out()) ? out() : undefined));
      const [, shown = ""] = /^```\n\$ \.\/claviger serve --demo\n(.*?)^```$/ms.exec(readme) ?? [];
      expect(mask(printed)).toBe(mask(shown));

      const steps = readConsoleSteps(readme);
      const env = { PATH: "/usr/bin:/bin", CLAVIGER_DATA_DIR: dataDir };
      const outputs = await runConsoleSteps(steps, { cwd: place.folder, env, address });
      expect(steps.length).toBeGreaterThan(10);
      for (const [index, { command, output }] of steps.entries()) {
        expect({ command, output: mask(outputs[index] ?? "") }).toEqual({ command, output: mask(output) });
      }
    },
    TEST_LIMIT_MS,
  );
});

describe.skipIf(!isBuilt)("README.md's walk from the file to a service", () => {
  let place: Place;
  let host: GitHubStandIn;
  beforeEach(async () => {
    place = createPlace();
    host = await startGitHubStandIn({ clock: systemClock, folder: place.folder });
  });
  afterEach(async () => {
    await host.close();
    await place.remove();
  });

  test(
    "can be copied line for line: TLS, an App's token, a model, a backup and its restore",
    async () => {
      const { folder } = place;
      const { certFile, keyFile } = makeCertificate(folder, "own");
      copyFileSync(certFile, join(folder, "fullchain.pem"));
      copyFileSync(keyFile, join(folder, "privkey.pem"));
      copyFileSync(host.settings.privateKeyFile ?? "", join(folder, "github-app.pem"));
      writeFileSync(join(folder, "speller.onnx"), Buffer.alloc(2_400_000));

      const steps = readWalkSteps(readme, "From the file to a service");
      const walked = await walk(steps, {
        folder,
        port: await freePort(),
        gitHubUrl: host.settings.apiUrl,
        afterwards: ["claviger-backup.service", "claviger keys list", ...(isRoot ? ["claviger doctor"] : [])],
      });

      expect(walked.filter(({ status }) => status !== 0)).toEqual([]);
      expect(walked).toHaveLength(8 + (isRoot ? 3 : 2));
      for (const { script, shown, output } of walked) {
        if (shown !== undefined)
          expect({ script, output: maskWalk(output) }).toEqual({ script, output: maskWalk(shown) });
      }
      const client = outputOf(walked, "repo-token");
      expect(client).toMatch(
        /"download_url":"https:\/\/licenses\.example\.org\/v1\/models\/download\/p300_speller/,
      );
      // doctor had the first one minted, to see whether the host gives any.
      expect(client).toContain(`"repo_token":"${host.tokens[1]}"`);
      expect(sha256Of(join(folder, "got.onnx"))).toEqual(sha256Of(join(folder, "speller.onnx")));
      const rehearsed = outputOf(walked, "claviger restore");
      expect(rehearsed).toContain("ada@example.org");
      expect(rehearsed).toContain("p300_speller 1.0.0  good");
      expect(existsSync(join(folder, "rehearsal"))).toBe(false);

      const [nightly, keys, doctor] = walked.slice(8).map(({ output }) => output);
      expect(nightly).toMatch(/^Saved \d+ rows of \d+ tables and 1 model file to /);
      expect(nightly).toMatch(/ is whole: \d+ rows /);
      expect(keys).toContain("ada@example.org");
      // Nobody else could read the credentials then.
      if (!isRoot) return;
      expect(doctor).toMatch(/^ok +tls +the certificate is good until /m);
      expect(doctor).toMatch(/^ok +github app +App 190219 mints tokens for core-package$/m);
      expect(doctor).toMatch(/^warn +service +none runs from \/var\/lib\/claviger$/m);
      expect(doctor).not.toMatch(/^(skip|fail) /m);
    },
    TEST_LIMIT_MS,
  );
});

function outputOf(walked: readonly Walked[], part: string): string {
  return walked.find(({ script }) => script.includes(part))?.output ?? "";
}

/** The mask, the day of the week, and the face that systemd shows where the terminal has none in colour. */
function maskWalk(output: string): string {
  return mask(output)
    .replaceAll(/\b[1-7]\.tar\.zst/g, "DAY.tar.zst")
    .replaceAll(/(🙂|:-\))/gu, "FACE");
}

function sha256Of(path: string): string {
  return new Bun.CryptoHasher("sha256").update(readFileSync(path)).digest("hex");
}

/** A port that was free a moment ago: the address must be known before the service listens. */
async function freePort(): Promise<number> {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const { port = 0 } = server;
  await server.stop(true);
  return port;
}
