/** Rows that are measured together, because they share services or rounds. */
import type { Cores } from "./cores.ts";
import type { LoadResult } from "./load_job.ts";
import type { Row } from "./row.ts";
import type { Scale } from "./scale.ts";
import type { Stage } from "./stage.ts";

export interface RowGroup {
  readonly name: string;
  /** The names of its rows, so that `--only` can choose one. */
  readonly rows: readonly string[];
  run(bench: Bench): Promise<Row[]>;
}

export interface Bench {
  readonly stage: Stage;
  readonly cores: Cores;
  readonly scale: Scale;
  /** Prints the progress for the person who waits. */
  readonly say: (what: string) => void;
  /** Called for a round that counts although other processes used the cores. */
  readonly noteDisturbed: () => void;
}

/**
 * Measures forms in turn, A B A B …, so that everything else on the machine affects all forms alike. If other processes
 * used the cores in a round, the round is measured again, whatever its figures. At most as many rounds are repeated as
 * there are rounds.
 */
export async function inTurn<Form extends string>(
  { scale, say, noteDisturbed }: Bench,
  /** Each form gets the number of rounds measured before, including those that do not count. */
  forms: Readonly<Record<Form, (before: number) => Promise<LoadResult>>>,
): Promise<Record<Form, LoadResult[]>> {
  const names = Object.keys(forms) as Form[];
  const results = Object.fromEntries(names.map((name) => [name, [] as LoadResult[]])) as Record<
    Form,
    LoadResult[]
  >;
  let again = 0;
  for (let round = 0; round < scale.rounds; ) {
    const measured: [Form, LoadResult][] = [];
    for (const name of names) measured.push([name, await forms[name](round + again)]);
    const isDisturbed = measured.some(([, { othersCpu, seconds }]) => othersCpu / seconds > DISTURBED);
    const isRepeated = isDisturbed && again < scale.rounds;
    for (const [name, { perSecond, othersCpu, seconds }] of measured) {
      const others = `others ${((othersCpu / seconds) * 100).toFixed(0)} %`;
      const verdict = isRepeated ? `${others}: measured again` : others;
      say(`  round ${round + 1}  ${name.padEnd(24)} ${perSecond.toFixed(0).padStart(7)}/s  (${verdict})`);
    }
    if (isRepeated) {
      again++;
      continue;
    }
    if (isDisturbed) noteDisturbed();
    for (const [name, result] of measured) results[name].push(result);
    round++;
  }
  return results;
}

/** The share of one core from which on the use by other processes exceeds the noise. */
const DISTURBED = 0.2;
