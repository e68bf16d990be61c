/** `claviger machines …`: list, show and release the machines that hold places of licenses. */
import { renderFields } from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { idRule, parseId } from "../../base/ids.ts";
import {
  findMachine,
  findMachineFilter,
  findReleasable,
  listMachines,
  MACHINE_CONDITIONS,
  type MachineSummary,
  RELEASED_FIELDS,
  refuseUnknownMachine,
  releaseByOperator,
  renderMachine,
} from "../../licensing/machines/mod.ts";
import { databaseCommand, group } from "../command.ts";
import { conditionOptions, conditionsOf, listOptions, printList } from "../list_options.ts";
import { CONFIRMATION, REASON } from "../options.ts";
import { required } from "../parameter.ts";
import { CommandRefused, orRefuse } from "../run.ts";

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
    const named = `${id}${name === null ? "" : ` (${name})`} of ${email}`;
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
      "if another machine needs a place, give the license more",
  );
}

export const machines = group("machines", "list the machines of licenses, and release them", [
  list,
  show,
  release,
]);
