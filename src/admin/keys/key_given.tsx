/** @jsxImportSource hono/jsx */
/** The changes of a key whose answer is not its page: a rotation shows the new key, and an export is a file. */

import * as v from "valibot";
import { DAY_MS } from "../../calendar.ts";
import { findKey, rotateKey } from "../../keys/mod.ts";
import { refuseUnknownKey } from "../../licensing/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import { EXPORT_DAYS, renderExport } from "../../signed_licenses/mod.ts";
import { printableText } from "../../wire/mod.ts";
import { wholeNumberField } from "../frame/api/list_fields.ts";
import { parseForm, TEXT, TEXT_OR_NOTHING, toAttempt } from "../frame/console/attempt.ts";
import { Copyable, Heading, Notice } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { Ago, KeyLink } from "../frame/console/components/values.tsx";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { keyPage, keyUuidOf } from "./key.tsx";

const ROTATE_ENTRIES = { overlap_days: v.pipe(TEXT, wholeNumberField("overlap_days", 0, 3_650)) };

/** Rotates a key. The answer shows the new key; no other page ever does. */
export async function rotateKeyOfForm(visit: Visit): Promise<Page | Refusal> {
  const { options, form, now } = visit;
  const { database, brand, directory } = options;
  const uuid = keyUuidOf(visit);
  if (isRefusal(uuid)) return uuid;
  const old = await findKey(database, { uuid }, { now });
  if (old === undefined) return refuseUnknownKey("rotate key", uuid);
  const parsed = parseForm(ROTATE_ENTRIES, visit);
  if (isRefusal(parsed)) return await keyPage(visit, toAttempt("rotate", form, parsed));
  const overlapMs = parsed.fields.overlap_days * DAY_MS;
  const rotated = await rotateKey(database, { uuid, mode: old.mode, overlapMs }, { brand, ...parsed.by });
  if (isRefusal(rotated)) return await keyPage(visit, toAttempt("rotate", form, rotated));
  directory.forgetLicense(rotated.licenseUuid);
  const path = `/console/keys/${rotated.id}`;
  return {
    title: "Key rotated",
    script: ["issued", "copy"],
    body: (
      <section class="narrow" data-reload={path}>
        <Heading title="Key rotated" />
        <Notice kind="good">
          <p>
            <b>Copy the new key now.</b> It is shown only once: only its hash is stored.
          </p>
          <Copyable id="api-key" text={rotated.apiKey} label="Copy the key" />
        </Notice>
        <Facts
          facts={[
            ["New key id", <code>{rotated.id}</code>],
            ["Old key", <KeyLink id={old.id} text={old.hint} />],
            ["The old key works until", <Ago at={rotated.oldWorksUntil} now={now} />],
          ]}
        />
        <div class="actions">
          <a class="button" href={path}>
            Show the new key's page
          </a>
        </div>
      </section>
    ),
  };
}

const LICENSE_ENTRIES = {
  days: v.pipe(TEXT, wholeNumberField("days", EXPORT_DAYS.least, EXPORT_DAYS.most)),
  fingerprint: v.pipe(TEXT_OR_NOTHING, v.optional(printableText("fingerprint").wrapped)),
  nonce: v.pipe(TEXT_OR_NOTHING, v.optional(printableText("nonce").wrapped)),
};

/** Signs the license of a key and answers it as a file. */
export async function exportLicenseOfForm(visit: Visit): Promise<Page | Response | Refusal> {
  const { options, form } = visit;
  const keyUuid = keyUuidOf(visit);
  if (isRefusal(keyUuid)) return keyUuid;
  const parsed = parseForm(LICENSE_ENTRIES, visit);
  if (isRefusal(parsed)) return await keyPage(visit, toAttempt("license", form, parsed));
  const signed = await options.licenseSigner.export({ keyUuid, ...parsed.fields, ...parsed.by });
  if (isRefusal(signed)) return await keyPage(visit, toAttempt("license", form, signed));
  return new Response(renderExport(signed).file, {
    headers: {
      "Content-Type": "text/plain; charset=utf-8",
      "Content-Disposition": `attachment; filename="${visit.params.id}.license"`,
    },
  });
}
