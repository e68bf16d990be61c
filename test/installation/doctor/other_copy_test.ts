/** `doctor` warns if the unit passes another certificate to the service than the one that the settings name. */

import { expect, test } from "bun:test";
import { chmodSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findOtherCopy } from "../../../src/installation/doctor/mod.ts";
import { asNobody } from "../../support/as_nobody.ts";
import { useFolder } from "../../support/use_folder.ts";

const folder = useFolder(tmpdir());
chmodSync(folder, 0o755);
const [certFile, keyFile] = [join(folder, "tls.crt"), join(folder, "tls.key")];
for (const path of [certFile, keyFile]) writeFileSync(path, "");

function find(credentials: Readonly<Record<string, string>>) {
  const unit = {
    name: "claviger.service",
    oldSettings: new Map(),
    envFiles: [],
    credentials: new Map(Object.entries(credentials)),
    siblings: [],
  };
  return findOtherCopy({ unit }, { certFile, keyFile });
}

test("findOtherCopy() finds a file that the service cannot read, and of which its unit passes on another one", () => {
  const other = { "claviger-tls-cert": certFile, "claviger-tls-key": "/etc/claviger/old.key" };
  chmodSync(keyFile, 0);
  asNobody(() => {
    expect(find(other)).toEqual({ passed: "/etc/claviger/old.key", named: keyFile });
    expect(find({ "claviger-tls-cert": certFile, "claviger-tls-key": keyFile })).toBeUndefined();
    // The service refuses to start: it has no pair of copies.
    expect(find({ "claviger-tls-key": "/etc/claviger/old.key" })).toBeUndefined();
    expect(findOtherCopy({}, { certFile, keyFile })).toBeUndefined();
  });
  // The service reads the files themselves.
  chmodSync(keyFile, 0o644);
  asNobody(() => expect(find(other)).toBeUndefined());
});
