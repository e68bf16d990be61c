import { type Actor, auditCte } from "../../audit/mod.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { toId } from "../../base/ids.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import type { Database } from "../../database/mod.ts";
import type { MachineSummary } from "./list_machines.ts";
import { releasedRow } from "./released_row.ts";

interface ReleaseById {
  readonly licenseUuid: string;
  readonly keyUuid: string;
  /** The machine. */
  readonly uuid: string;
  readonly actor: Actor;
  readonly now: Date;
}

/** A machine after its release by a client. All are null if the license does not count machines. */
interface ReleasedMachine extends Pick<MachineSummary, "takenUntil"> {
  readonly id: string | null;
  readonly state: "released" | "offline" | null;
}

/**
 * Releases another machine of its license for a client, and notes that in the audit log. The license says how many such
 * releases it has in how many days. Refuses with `RELEASE_LIMIT_REACHED` if all are used, and with `MACHINE_NOT_FOUND` if no
 * machine of the license with this id is active: then nothing is counted.
 */
export async function releaseById(
  database: Database,
  { licenseUuid, keyUuid, uuid, actor, now }: ReleaseById,
): Promise<ReleasedMachine | Refusal> {
  const [row] = await database.query<Row>(
    (sql) => sql`
      with released as materialized (
        select r.*, ${licenseUuid}::uuid as license_id
          from release_by_id(${licenseUuid}::uuid, ${uuid}::uuid) r
      ),
      noted as (${releasedRow(sql, { uuid, keyUuid: sql`${keyUuid}::uuid` })}),
      logged as (${auditCte(sql, { action: "machine.release", actor, at: now, from: sql`noted` })})
      select r.places, r.state, r.taken_until as "takenUntil", r.room_at is not null as "isRefused", r.most,
             extract(epoch from b.within)::integer / 86400 as days, nullif(r.room_at, 'infinity') as "roomAt",
             ceil(extract(epoch from nullif(r.room_at, 'infinity') - clock_timestamp()))::integer as "roomInSeconds"
        from released r
        join licenses l on l.id = r.license_id
       cross join lateral self_release_bound(l) b`,
  );
  if (row === undefined) throw new Error("A key has a license");
  const { places, state, takenUntil } = row;
  if (places === null) return { id: null, state, takenUntil };
  if (state !== null) return { id: toId("mch", uuid), state, takenUntil };
  return row.isRefused ? refuseMore(row) : refuseInactive(takenUntil);
}

interface Row extends Omit<ReleasedMachine, "id"> {
  /** Null if the license does not count machines. */
  readonly places: number | null;
  /** Whether too many machines were released. */
  readonly isRefused: boolean;
  /** How many may be released in so many days; `most` is null if no machine of the id is active. */
  readonly most: number | null;
  readonly days: number;
  /** When the next one can be released; null if never. */
  readonly roomAt: Date | null;
  readonly roomInSeconds: number | null;
}

function refuseMore({ most, days, roomAt, roomInSeconds }: Row): Refusal {
  const allowed = counted(most ?? 0, "release");
  if (roomAt === null || roomInSeconds === null)
    return refuse(
      "RELEASE_LIMIT_REACHED",
      `${CANNOT}: the license allows no release by id; the machine can release itself`,
    );
  // A sentence names whole seconds, and the one in which there is room has begun before.
  const next = toTimestamp(new Date(Math.ceil(roomAt.getTime() / 1_000) * 1_000));
  return refuse(
    "RELEASE_LIMIT_REACHED",
    `${CANNOT}: the license allows ${allowed} by id in ${counted(days, "day")}, and the next is possible at ${next}`,
    { retryAfterSeconds: Math.max(1, roomInSeconds) },
  );
}

function refuseInactive(takenUntil: Date | null): Refusal {
  const why =
    takenUntil === null
      ? "no machine of the license with this id is active: list the machines again"
      : `it is not active, and the license that was signed for it holds its place until ${toTimestamp(takenUntil)}`;
  return refuse("MACHINE_NOT_FOUND", `${CANNOT}: ${why}`);
}

const CANNOT = "Cannot release machine";
