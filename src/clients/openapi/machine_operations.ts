/** The operations of machines: activate, heartbeat and release. */
import { type EndpointOperation, jsonBody, WITH_BODY, WITH_GOOD_KEY } from "./operation.ts";

const FINGERPRINT = { fingerprint: "3f2c9a51-workstation-7" };
const MACHINE = { machine_id: "mch_019a0000000070008000000000000000", expires_at: "2026-11-20T10:30:00Z" };
const CODES = [...WITH_GOOD_KEY, ...WITH_BODY] as const;

/** Returns the operations of machines. */
export function machineOperations(): EndpointOperation[] {
  return [
    {
      path: "/v1/machines/activate",
      method: "post",
      id: "activateMachine",
      summary: "Take a place of the license for this machine",
      description:
        "A machine that holds a place keeps it, so the request can be repeated. A license without a limit for machines " +
        "answers 200 and stores nothing.",
      limit: "machine_activate",
      request: jsonBody("ActivationRequest", { ...FINGERPRINT, name: "Workstation 7", platform: "linux" }),
      success: {
        schema: "Activation",
        description: "The machine holds a place",
        example: { ...MACHINE, machines: { limit: 30, used: 12 } },
      },
      codes: [...CODES, "MACHINE_LIMIT_REACHED"],
    },
    {
      path: "/v1/machines/heartbeat",
      method: "post",
      id: "renewSeat",
      summary: "Say that this machine still runs",
      description:
        "Renews its seat. At most 10 a minute for each machine that is active; all others count in the window of the key. " +
        "After `MACHINE_NOT_FOUND` activate the machine again.",
      limit: "machine_heartbeat",
      request: jsonBody("MachineRequest", FINGERPRINT),
      success: { schema: "Heartbeat", description: "The machine is active", example: MACHINE },
      codes: [...CODES, "MACHINE_NOT_FOUND"],
    },
    {
      path: "/v1/machines/release",
      method: "post",
      id: "releaseMachine",
      summary: "Give the place of this machine back",
      description: "The place is free when the last license that was signed for the machine has ended.",
      limit: "machine_release",
      request: jsonBody("MachineRequest", FINGERPRINT),
      success: {
        schema: "Release",
        description: "The machine is not active any more",
        example: { released: true, machine_id: MACHINE.machine_id },
      },
      codes: [...CODES, "MACHINE_NOT_FOUND"],
    },
  ];
}
