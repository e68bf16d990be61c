/**
 * What a lock on the journal of a machine may hold, how old it is, and whether a report has to wait for its holder.
 *
 * A lock names a process by its number, by when it began, and by the place where its number means it: one boot of a computer
 * and one container. In a text, PID, BEGIN and PLACE stand for those of the process that finds the lock.
 */
import { readFileSync, readlinkSync } from "node:fs";

export interface Lock {
  readonly what: string;
  readonly text: string;
  readonly ageSeconds: number;
  readonly isHeld: boolean;
}

/** When a process began, in ticks since the boot. */
function beginOf(pid: number): string {
  return (
    readFileSync(`/proc/${pid}/stat`, "latin1")
      .replace(/^.*\) /s, "")
      .split(" ")[19] ?? ""
  );
}

/** The locks, with a process that sleeps and one that has ended. */
export function listLocks({ asleep, ended }: { readonly asleep: number; readonly ended: number }): Lock[] {
  const OWN = "PID BEGIN PLACE";
  const FAR = "PID BEGIN 5830181f-8f25-4568-99c9-408eebc99d48/pid:[4026532000]";
  return [
    { what: "of this process", text: OWN, ageSeconds: 0, isHeld: true },
    { what: "of this process, an hour ago", text: OWN, ageSeconds: 3_601, isHeld: false },
    { what: "of an earlier process with the number", text: "PID 1 PLACE", ageSeconds: 0, isHeld: false },
    { what: "of another one", text: `${asleep} ${beginOf(asleep)} PLACE`, ageSeconds: 0, isHeld: true },
    { what: "of one before that other one", text: `${asleep} 1 PLACE`, ageSeconds: 0, isHeld: false },
    { what: "of one that has ended", text: `${ended} 1 PLACE`, ageSeconds: 0, isHeld: false },
    { what: "of another container", text: FAR, ageSeconds: 590, isHeld: true },
    { what: "of another container, ten minutes ago", text: FAR, ageSeconds: 610, isHeld: false },
    { what: "of another program", text: "PID", ageSeconds: 590, isHeld: true },
    { what: "of another program, ten minutes ago", text: "PID", ageSeconds: 610, isHeld: false },
    { what: "without a name", text: "", ageSeconds: 0, isHeld: true },
    { what: "without a name, six seconds ago", text: "", ageSeconds: 6, isHeld: false },
  ];
}

/** What a lock of this process holds. */
export function nameThisProcess(text: string): string {
  const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  return text
    .replace("PID", String(process.pid))
    .replace("BEGIN", beginOf(process.pid))
    .replace("PLACE", `${boot}/${readlinkSync("/proc/self/ns/pid")}`);
}
