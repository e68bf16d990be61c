/** `claviger machines …`: list, show and release the machines that hold places of licenses, and free such places. */
import { renderFields } from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { idRule, parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import { wholeNumber } from "../../base/rule.ts";
import {
  countReleases,
  describeForeseen,
  describeReleases,
  FORESEEN_FIELDS,
  FREED_FIELDS,
  findActive,
  findFreeable,
  findMachine,
  findMachineFilter,
  findReleasable,
  foreseeReleases,
  freeByOperator,
  listMachines,
  MACHINE_CONDITIONS,
  type MachineSummary,
  MOST_RELEASED,
  RELEASE_COUNTS,
  RELEASE_FIELDS,
  RELEASED_FIELDS,
  refuseUnknownMachine,
  releaseByOperator,
  releaseMachines,
  renderMachine,
} from "../../licensing/machines/mod.ts";
import { databaseCommand, group } from "../command.ts";
import { conditionOptions, conditionsOf, listOptions, printList } from "../list_options.ts";
import { CONFIRMATION, NEEDED_REASON, REASON } from "../options.ts";
import { option, required } from "../parameter.ts";
import { CommandRefused, DoneInPart, orRefuse } from "../run.ts";

const { limit, after } = listOptions("mch");

const list = databaseCommand({
  name: "list",
  description:
    "list the machines that meet every condition, by default in the order of their first activation",
  options: {
    limit,
    after,
    ...conditionOptions(MACHINE_CONDITIONS),
  },
  async run(values, call) {
    const { database } = call;
    const filter = orRefuse(await findMachineFilter(database, conditionsOf(MACHINE_CONDITIONS, values)));
    await printList(call, values, {
      read: (part) => listMachines(database, { filter: { ...filter, ...part } }),
      positionOf: ({ id }) => parseId("mch", id) ?? "",
      toCells: (machine) => ({
        id: machine.id,
        state: machine.state,
        "taken until": takenUntil(machine),
        email: machine.email,
        "last seen": machine.lastSeenAt,
        name: machine.name,
      }),
      toJson: renderMachine,
    });
  },
});

/** Returns until when a place is taken, in words; null if it is free. */
function takenUntil({ state, takenUntil }: Pick<MachineSummary, "state" | "takenUntil">): string | null {
  if (takenUntil !== null) return toTimestamp(takenUntil);
  return state === "active" ? "a release" : null;
}

const MACHINE_ID = { id: required("the machine's id", idRule("mch")) };

const show = databaseCommand({
  name: "show",
  description: "show one machine",
  arguments: MACHINE_ID,
  async run({ id }, { database, print }) {
    const machine = orRefuse((await findMachine(database, id)) ?? refuseUnknownMachine("show machine", id));
    print.fields(renderMachine(machine));
  },
});

const release = databaseCommand({
  name: "release",
  description: "release a machine: its place is free for another one",
  arguments: MACHINE_ID,
  options: { ...CONFIRMATION, ...REASON },
  async run({ id: uuid, dryRun }, { database, actor, now, print, confirm }) {
    const { id, state, email, name, takenUntil } = orRefuse(await findReleasable(database, uuid));
    if (state === "offline") refuseOffline(id, takenUntil);
    const named = nameOf({ id, name, email });
    if (dryRun) return print.line(`Would release ${named}: it is ${state}`, { id, state, dry_run: true });
    await confirm(
      `Release ${named}? It is ${state}, and its program gets no place until it is activated again.`,
    );
    const released = orRefuse(await releaseByOperator(database, uuid, { actor, now }));
    if (!released.isChanged) refuseOffline(id, released.takenUntil);
    const shown = renderFields(RELEASED_FIELDS, released);
    const outcome =
      shown.taken_until === null
        ? "its place is free"
        : `a license was signed for it, so its place stays taken until ${shown.taken_until}`;
    print.line(`Released ${id}: ${outcome}`, shown);
  },
});

/** Nothing would change, and the operator would wait for the place. */
function refuseOffline(id: string, takenUntil: Date | null): never {
  const until = takenUntil && toTimestamp(takenUntil);
  throw new CommandRefused(
    `Cannot release ${id}: it is not active, and a license that was signed for it keeps its place until ${until}; ` +
      "if another machine needs a place, give the license more, or free this one with `claviger machines free`",
  );
}

const { sort: _, ...CONDITIONS } = MACHINE_CONDITIONS;

const releaseAll = databaseCommand({
  name: "release-all",
  description: `release the active machines that meet every condition, at most ${MOST_RELEASED} at once`,
  options: {
    ...conditionOptions(CONDITIONS),
    limit: option(
      "release at most so many, in the order of their first activation",
      wholeNumber(1, MOST_RELEASED),
      { as: "n", default: MOST_RELEASED },
    ),
    ...CONFIRMATION,
    ...REASON,
  },
  check: (values) =>
    Object.keys(conditionsOf(CONDITIONS, values)).length === 0
      ? `give at least one condition: ${Object.keys(CONDITIONS)
          .map((name) => `--${name}`)
          .join(", ")}`
      : undefined,
  async run(values, { database, invocation, actor, now, print, confirm }) {
    const { limit, dryRun } = values;
    const filter = orRefuse(await findMachineFilter(database, conditionsOf(CONDITIONS, values)));
    const { machines, hasMore } = await findActive(database, { ...filter, limit });
    const uuids = machines.map(({ id }) => parseId("mch", id) ?? "");
    if (uuids.length === 0) {
      const nothing = { ...renderFields(RELEASE_COUNTS, countReleases([])), more: false, results: [] };
      return print.line("Nothing changed: no active machine meets the conditions", nothing);
    }
    const foreseen = foreseeReleases(machines);
    const further = "More active machines meet the conditions: run the command again for the next ones";
    if (dryRun) {
      const ids = machines.map(({ id }) => id);
      const shown = { ...renderFields(FORESEEN_FIELDS, foreseen), more: hasMore, ids, dry_run: true };
      print.line(`Would release ${describeForeseen(foreseen)}`, shown);
      if (hasMore) print.note(further);
      return;
    }
    print.note(`To release: ${describeForeseen(foreseen)}`);
    if (hasMore) print.note(further);
    await confirm(
      `Release ${counted(uuids.length, "machine")}? Their programs get no place until they are activated again.`,
    );
    const { clock } = invocation;
    const releases = await releaseMachines(database, uuids, { actor, now, clock });
    const counts = countReleases(releases);
    const results = releases.map((release) => renderFields(RELEASE_FIELDS, release));
    print.line(describeReleases(counts), { ...renderFields(RELEASE_COUNTS, counts), more: hasMore, results });
    for (const { id, result } of releases) if (isRefusal(result)) print.note(`${id}: ${result.sentence}`);
    if (counts.refused > 0)
      throw new DoneInPart(`Not released: ${counted(counts.refused, "machine")}; run the command again`);
  },
});

const free = databaseCommand({
  name: "free",
  description: "free the place of a machine that a signed license holds, such as a license file that is lost",
  arguments: MACHINE_ID,
  options: { ...CONFIRMATION, ...NEEDED_REASON },
  async run({ id: uuid, dryRun }, { database, actor, now, print, confirm }) {
    const { id, state, email, name, signedUntil } = orRefuse(await findFreeable(database, uuid));
    const named = `the place of ${nameOf({ id, name, email })}`;
    const works = `The license that was signed for it works without a network until ${toTimestamp(signedUntil)}`;
    if (dryRun)
      return print.line(`Would free ${named}. ${works}`, {
        ...{ id, state, file_works_until: toTimestamp(signedUntil) },
        dry_run: true,
      });
    await confirm(
      `Free ${named}? ${works}, also if another machine gets the place. No command ends it earlier.`,
    );
    const freed = renderFields(FREED_FIELDS, orRefuse(await freeByOperator(database, uuid, { actor, now })));
    print.line(
      `Freed the place of ${id}. The license that was signed for it still works until ${freed.file_works_until}`,
      freed,
    );
  },
});

/** Returns what people know a machine by. */
function nameOf({ id, name, email }: Pick<MachineSummary, "id" | "name" | "email">): string {
  return `${id}${name === null ? "" : ` (${name})`} of ${email}`;
}

export const machines = group(
  "machines",
  "list the machines of licenses, release them, and free their places",
  [list, show, release, releaseAll, free],
);
