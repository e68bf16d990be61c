/**
 * An ordinary user swaps a link in and out of a data folder all the time while root runs commands there. No command may
 * change or show a file of root's, or wait. Each command meets the swap at another moment, so each runs several times.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { canActAsBoth } from "./as_root.ts";
import { COPY_LIMIT_MS, commands, createTrapStage, env, LIMIT_MS, type TrapStage } from "./trap_stage.ts";

const ROUNDS = 8;

describe.skipIf(!canActAsBoth)("root in the data folder of a user who swaps links", () => {
  let stage: TrapStage;
  beforeAll(async () => {
    stage = await createTrapStage();
  }, COPY_LIMIT_MS);
  afterAll(() => stage.remove());

  const swaps: readonly (readonly [string, string, keyof typeof commands])[] = [
    ["lock", "ln -sf $1/key lock; rm -f lock; : > lock; rm -f lock", "list"],
    ["models", "ln -s $1 models; rm models; mkdir models; rm -rf models", "add"],
    ["secret", "ln -s $1/key secret; rm -f secret; mkfifo secret; rm -f secret", "backup"],
    [
      "serving, for root itself",
      "ln -s $1/key serving; rm -f serving; mkfifo serving; rm -f serving",
      "check",
    ],
    ["postgres", "mv postgres p; ln -s $1/below postgres; rm postgres; mv p postgres", "list"],
    [
      "PG_VERSION",
      "mv postgres/PG_VERSION v; ln -s $1/key postgres/PG_VERSION; rm postgres/PG_VERSION; mv v postgres/PG_VERSION",
      "list",
    ],
    [
      "the unpack folder",
      "for n in postgres-*.unfinished-*; do [ -d $n ] && [ ! -h $n ] && mv $n away.$$ && ln -s $1 $n && rm $n && mv away.$$ $n; done",
      "list",
    ],
    ["the data folder", "cd ..; mv data d; ln -s $1 data; rm data; mv d data; cd data", "list"],
  ];

  test.each(swaps)(
    "is safe from a link that is swapped in and out all the time: %s",
    async (what, swap, command) => {
      stage.mend();
      if (what === "the unpack folder") stage.asUser("rm -r postgres-*");
      const loop = stage.loopAsUser(swap);
      try {
        for (let round = 0; round < ROUNDS; round++) {
          const ended = await stage.asRoot(commands[command], { env });
          stage.expectOutcomeTold(ended);
          stage.expectSameVictim();
          expect(ended.ms - stage.usualMs).toBeLessThan(2 * LIMIT_MS);
        }
      } finally {
        await loop.end();
      }
    },
  );
});
