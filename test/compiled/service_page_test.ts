/**
 * Runs every line of the page `service` with the executable: from the downloaded file to a running service. Root runs it,
 * too, because the walk differs for root (`getuid` in walk.ts).
 */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { findGuidePage } from "../../src/cli/guide/pages.ts";
import { makeCertificate } from "../support/certificates.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { type GitHubStandIn, startGitHubStandIn } from "../support/github_stand_in.ts";
import { mask } from "./console_blocks.ts";
import { createPlace, type Place } from "./executable.ts";
import { isBuilt } from "./installed.ts";
import { readWalkSteps, type Walked, walk } from "./walk.ts";

setDefaultTimeout(120_000);

describe.skipIf(!isBuilt)("the page `service`", () => {
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

  test("can be copied line for line: TLS, an App's token, a model, a backup and its restore", async () => {
    const { folder } = place;
    const { certFile, keyFile } = makeCertificate(folder, "own");
    copyFileSync(certFile, join(folder, "fullchain.pem"));
    copyFileSync(keyFile, join(folder, "privkey.pem"));
    copyFileSync(host.settings.privateKeyFile ?? "", join(folder, "github-app.pem"));
    writeFileSync(join(folder, "speller.onnx"), Buffer.alloc(2_400_000));

    const steps = readWalkSteps(findGuidePage("service")?.text ?? "");
    const walked = await walk(steps, {
      folder,
      port: await findFreePort(),
      gitHubUrl: host.settings.apiUrl,
      afterwards: ["claviger-backup.service", "claviger keys list", "claviger doctor"],
    });

    expect(walked.filter(({ status }) => status !== 0)).toEqual([]);
    expect(walked).toHaveLength(8 + 3);
    for (const { script, shown, output } of walked) {
      if (shown !== undefined)
        expect({ script, output: maskWalk(output) }).toEqual({ script, output: maskWalk(shown) });
    }
    const client = outputOf(walked, "repo-token");
    expect(client).toMatch(
      /"download_url":"https:\/\/licenses\.example\.org\/v1\/models\/download\/p300_speller/,
    );
    // doctor minted the first token, to check that the host mints any.
    expect(client).toContain(`"repo_token":"${host.tokens[1]}"`);
    expect(sha256Of(join(folder, "got.onnx"))).toEqual(sha256Of(join(folder, "speller.onnx")));
    const rehearsed = outputOf(walked, "claviger restore");
    expect(rehearsed).toContain("ada@example.org");
    expect(rehearsed).toContain("p300_speller 1.0.0  good");
    expect(existsSync(join(folder, "tmp/rehearsal"))).toBe(false);

    const [nightly, keys, doctor] = walked.slice(8).map(({ output }) => output);
    expect(nightly).toMatch(/^Saved and verified \d+ rows of \d+ tables and 1 model file to /);
    expect(keys).toContain("ada@example.org");
    expect(doctor).toMatch(/^ok +tls +the certificate is good until /m);
    expect(doctor).toMatch(/^ok +github app +App 190219 mints tokens for core-package$/m);
    expect(doctor).toMatch(/^warn +service +no service runs from \/var\/lib\/claviger$/m);
    expect(doctor).not.toMatch(/^(skip|fail) /m);
  });
});

function outputOf(walked: readonly Walked[], part: string): string {
  return walked.find(({ script }) => script.includes(part))?.output ?? "";
}

/** Masks the output, and the symbol that systemd shows on a terminal without colours. */
function maskWalk(output: string): string {
  return (
    mask(output)
      .replaceAll(/(🙂|:-\))/gu, "FACE")
      // The address of the walk leads to this machine.
      .replace(
        /^warn {2}public address {2}(\S+), as set: only this machine .*\n.*$/m,
        "ok  public address  $1, as set: not called from here",
      )
  );
}

function sha256Of(path: string): string {
  return new Bun.CryptoHasher("sha256").update(readFileSync(path)).digest("hex");
}
