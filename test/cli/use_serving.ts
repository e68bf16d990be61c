/** A service that `serve` runs in this process during the tests of a file, and a command line on its data folder. */
import { useForAll } from "../support/use.ts";
import { createCommandLine, type RunOptions } from "./command_line.ts";

/** The line can be used at once; the service runs from the first test on. */
export function useServing(args: readonly string[] = [], options: RunOptions = {}) {
  const line = createCommandLine({ prepared: true });
  const service = useForAll(async () => {
    const running = await line.serve(args, options);
    return {
      ...running,
      async close() {
        await running.stop();
        line.remove();
      },
    };
  });
  return { line, service };
}
