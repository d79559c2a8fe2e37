/** The defects that `deno task defects` writes back keep up with the code, so that it says something when it is run. */

import { join } from "node:path";
import { changesOf } from "../defects/apply.ts";
import { DEFECTS } from "../defects/patches.ts";
import { REPOSITORY } from "./sources.ts";

for (const defect of DEFECTS) {
  Deno.test(`defect ${defect.id} can be written back, and the tests that are to notice it are there`, async () => {
    await changesOf(REPOSITORY, defect);
    for (const file of defect.tests) await Deno.stat(join(REPOSITORY, file));
  });
}
