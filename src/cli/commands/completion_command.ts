/** `claviger completion`: prints the script by which a shell completes the command line. */
import { command } from "../command.ts";
import { renderCompletion, SHELLS } from "../completion.ts";
import { required } from "../parameter.ts";

export const completion = command({
  name: "completion",
  description: "print a script that completes commands, options and their values in a shell",
  arguments: { shell: required("the shell", SHELLS) },
  run: ({ shell }, { invocation, program }) => invocation.out(renderCompletion(program, shell)),
});
