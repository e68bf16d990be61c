import { toMinute } from "../../base/calendar.ts";
import { toId } from "../../base/ids.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { findTextsLeftOut } from "../../usage/mod.ts";
import type { ServerContext } from "./examine_server.ts";
import { type Check, ok, warn } from "./finding.ts";

/** Examines whether the texts of all events of the day were stored. */
export const eventTextsCheck: Check<Pick<ServerContext, "config" | "database" | "clock">> = {
  name: "event texts",
  async examine({ config, database, clock }) {
    const { bytes, count, leftOutAt, licenses } = await findTextsLeftOut(database, clock.now());
    const stored = `${renderMegabytes(bytes)} stored today (UTC)`;
    if (leftOutAt === null) return ok(`${stored}, none left out`);
    const since = `since ${toMinute(leftOutAt)}`;
    const { installationBytes, licenseBytes } = config.textBounds;
    if (bytes >= installationBytes) {
      return warn(
        `${stored}, as much as the installation may; events are stored without texts ${since}`,
        "raise CLAVIGER_EVENT_TEXT_MB_A_DAY_IN_ALL if the disk has room, or find the customer who sends them",
      );
    }
    const names = licenses.map((uuid) => toId("lic", uuid)).join(", ");
    return warn(
      `left out ${since} for ${counted(count, "license")}, beyond ${renderMegabytes(licenseBytes)} of texts a day: ${names}${count > licenses.length ? ", …" : ""}`,
      "ask the customer to send less, or raise CLAVIGER_EVENT_TEXT_MB_A_DAY if the disk has room",
    );
  },
};

const renderMegabytes = (bytes: number) => `${renderCount(Math.ceil(bytes / 1e5) / 10)} MB`;
