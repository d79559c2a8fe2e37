/** The vault's machine against a model, at a clock that the test sets; and what must hold whatever anybody does. */

import assert from "node:assert/strict";
import fc from "npm:fast-check@4.10.2";
import { dispatchVaults } from "../../supabase/functions/vault/flows/dispatch_vaults.ts";
import { openClaim as openClaimOfTests, THOROUGH } from "../support/claims.ts";
import { type Answer, onOneBackend, type World } from "../support/harness.ts";
import { checkModel } from "../support/model_runner.ts";
import { apply, evaluate } from "../support/vault_model.ts";
import {
  type Action,
  GUARDIANS,
  HEIRS,
  isHeir,
  newModel,
  openClaim,
  pass,
  QUORUM,
  type VaultModel,
} from "../support/vault_model_state.ts";
import {
  addAsset,
  ask,
  askAlive,
  askByToken,
  configure,
  HOUR_MS,
  look,
  type Named,
  nameSomebody,
  newVault,
  type Vault,
  wait,
} from "../support/vaults.ts";

const RUNS = THOROUGH ? 120 : 60;
const STEPS_MAX = 40;

const heir = fc.nat(HEIRS - 1);
const guardian = fc.nat(GUARDIANS - 1).map((i) => HEIRS + i);
const anybody = fc.nat(HEIRS + GUARDIANS - 1);
const alive = fc.oneof({ weight: 3, arbitrary: fc.constant(true) }, {
  weight: 1,
  arbitrary: fc.constant(false),
});
const of = <Kind extends string>(kind: Kind) => fc.constant(kind);
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: of("look") }) },
  { weight: 4, arbitrary: fc.record({ kind: of("dispatch") }) },
  { weight: 2, arbitrary: fc.record({ kind: of("checkIn"), alive }) },
  { weight: 2, arbitrary: fc.record({ kind: of("veto"), alive }) },
  { weight: 2, arbitrary: fc.record({ kind: of("release"), alive }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: of("window"), hours: fc.constantFrom(24, 72, 168, 400), alive }),
  },
  { weight: 5, arbitrary: fc.record({ kind: of("claim"), by: guardian }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: of("vote"),
      by: guardian,
      vote: fc.constantFrom("concur" as const, "concur" as const, "reject" as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: of("withdraw"), by: guardian }) },
  { weight: 1, arbitrary: fc.record({ kind: of("decline"), by: anybody }) },
  { weight: 1, arbitrary: fc.record({ kind: of("removeHeir"), heir }) },
  { weight: 4, arbitrary: fc.record({ kind: of("pickUp"), by: anybody }) },
);
const hours = fc.constantFrom(0, 0, 1, 12, 24, 24 * 4, 24 * 7, 24 * 15, 24 * 31, 24 * 60);

/** A vault in the service, who is named in it, and what the test has seen of it with its own eyes. */
interface Real {
  vault: Vault;
  people: Named[];
  /** In the order in which they were made. */
  claimIds: string[];
  seen: Seen;
}

/** Kept apart from the model: the promises are checked on what was asked and answered alone. */
interface Seen {
  state: string;
  releaseAt: string | null;
  /** Hour of the last proof of life. */
  provenAt: number;
  pickedUp: boolean;
  /** Guardians whose last word, of the claim that is open, is to release. */
  concurring: Set<number>;
  rejecting: Set<number>;
  /** Whether the last action was an heir's leaving: what had become due by then happened while they were there. */
  heirLeft: boolean;
  releases: number;
}

/** Time passes, in hours, then somebody does something. */
interface Step {
  after: number;
  does: Action;
}

const held = openClaimOfTests("A vault is never released before its time, without a quorum or to nobody");

onOneBackend((test) => {
  test("whatever anybody does, and whenever, a vault is what its model says, and keeps its promises", async (world) => {
    let [entries, releases] = [0, 0];
    const actions = await checkModel<VaultModel, Real, Step>({
      action: fc.record({ after: hours, does: action }),
      setUp: async () => ({ model: newModel(), real: await setUp(world) }),
      perform: takeStep,
      apply(model, { after, does }) {
        pass(model, after);
        return apply(model, does);
      },
      inspect,
      async assertKept(real) {
        const verified = await ask(real.vault, "GET", "/audit/verify");
        assert.equal(verified.body.valid, true, verified.text);
        await assertOneEntryForEachTransition(real.vault);
        entries += verified.body.checked;
        releases += real.seen.releases;
      },
    }, { runs: RUNS, stepsMax: STEPS_MAX });
    assert.ok(entries > RUNS * 20, `only ${entries} entries: the programs do too little`);
    assert.ok(releases > RUNS / 6, `only ${releases} releases: the programs do too little`);
    held(actions);
  });
});

async function takeStep(real: Real, model: VaultModel, { after, does }: Step): Promise<Answer> {
  wait(real.vault, after * HOUR_MS);
  const present = structuredClone(model);
  pass(present, after);
  const answer = await perform(real, does, claimIdOf(present, real));
  if (does.kind === "claim" && answer.status === 201) real.claimIds.push(answer.body.id);
  return answer;
}

/** Looks at the vault after each step: it is what the model says, and has done nothing that it never must. */
async function inspect(real: Real, model: VaultModel, { does }: Step, answer: Answer): Promise<void> {
  keepPromises(real, does, answer, model.now);
  evaluate(model);
  const shown = await look(real.vault);
  const expected = {
    state: model.state,
    trigger: model.trigger,
    release_at: model.releaseAt === null ? null : timeOf(real, model, model.releaseAt),
    blocked: model.blocked,
    picked_up: model.pickedUp,
    claim: openClaim(model)?.state ?? null,
    waiting: model.changes.length,
  };
  const { release } = shown;
  assert.deepEqual({
    state: shown.state,
    trigger: release.trigger,
    release_at: release.release_at,
    blocked: release.blocked_since !== null,
    picked_up: release.picked_up_at !== null,
    claim: shown.claim?.state ?? null,
    waiting: shown.pending_changes.length,
  }, expected);
  watch(real, shown, does, model.now);
}

async function setUp(world: World): Promise<Real> {
  const vault = await newVault(world);
  const people = [
    await nameSomebody(vault, "heir"),
    await nameSomebody(vault, "heir", { share: null }),
    await nameSomebody(vault, "guardian"),
    await nameSomebody(vault, "guardian"),
    await nameSomebody(vault, "guardian", { share: null }),
  ];
  await addAsset(vault, people.slice(0, HEIRS));
  await configure(vault, "dead_man_switch");
  await configure(vault, "guardian_claim");
  const seen = {
    state: "active",
    releaseAt: null,
    provenAt: 0,
    pickedUp: false,
    concurring: new Set<number>(),
    rejecting: new Set<number>(),
    heirLeft: false,
    releases: 0,
  };
  return { vault, people, claimIds: [], seen };
}

/** Sends the request of an action. */
async function perform({ vault, people }: Real, does: Action, claimId: string): Promise<Answer> {
  const owner = "alive" in does && does.alive ? askAlive : ask;
  switch (does.kind) {
    case "look":
      return await ask(vault, "GET", "");
    case "dispatch": {
      const report = await dispatchVaults(vault.service.platform, 1000);
      assert.equal(report.failed, 0);
      return await ask(vault, "GET", "");
    }
    case "checkIn":
      return await owner(vault, "POST", "/check-in");
    case "veto":
      return await owner(vault, "POST", "/release/veto");
    case "release":
      return await owner(vault, "POST", "/release");
    case "window": {
      const body = { trigger: "dead_man_switch", config: { veto_window_hours: does.hours } };
      return await owner(vault, "POST", "/release/config", body);
    }
    case "removeHeir":
      return await askAlive(vault, "DELETE", `/heir/${people[does.heir]!.id}`);
    case "claim":
      return await askByToken(vault, people[does.by]!, "/claim");
    case "vote":
      return await askByToken(vault, people[does.by]!, `/claim/${claimId}/vote`, { vote: does.vote });
    case "withdraw":
      return await askByToken(vault, people[does.by]!, `/claim/${claimId}/withdraw`);
    case "decline":
      return await askByToken(vault, people[does.by]!, "/invitation/decline");
    case "pickUp":
      return await askByToken(vault, people[does.by]!, "/pick-up");
  }
}

/** The id of the claim that a vote is about: of the one that is open as the model has it, else of the last. */
function claimIdOf(model: VaultModel, { claimIds }: Real): string {
  const present = structuredClone(model);
  evaluate(present);
  const number = openClaim(present)?.number ?? present.claims.length - 1;
  return claimIds[number] ?? crypto.randomUUID();
}

function timeOf({ vault }: Real, model: VaultModel, hour: number): string {
  return new Date(vault.clock.ms + (hour - model.now) * HOUR_MS).toISOString();
}

/** What one answer must never be, whatever the model says. */
function keepPromises({ seen }: Real, does: Action, answer: Answer, now: number): void {
  const done = answer.status < 300;
  if (does.kind === "veto" && does.alive && seen.state !== "active" && !seen.pickedUp) {
    assert.ok(done && answer.body.state === "active", "a veto always wins before the first pick-up");
  }
  if (does.kind === "pickUp" && done) {
    assert.ok(isHeir(does.by), "released to heirs only");
    seen.pickedUp = true;
  }
  seen.heirLeft = does.kind === "decline" && done && isHeir(does.by);
  if ((does.kind === "checkIn" || does.kind === "veto") && done) {
    assert.ok(does.alive, "an ordinary key proves nothing");
    seen.provenAt = now;
  }
  if (does.kind === "claim" && done) {
    seen.concurring = new Set([does.by]);
    seen.rejecting = new Set();
  }
  if (does.kind === "vote" && done) {
    seen.concurring.delete(does.by);
    seen.rejecting.delete(does.by);
    (does.vote === "concur" ? seen.concurring : seen.rejecting).add(does.by);
  }
}

/** What may never be seen to have happened since the last look. */
// deno-lint-ignore no-explicit-any
function watch({ seen }: Real, shown: any, does: Action, now: number): void {
  const { state, release } = shown;
  const began = seen.state === "active" && state !== "active";
  if (began && release.trigger === "dead_man_switch") {
    assert.ok(now - seen.provenAt >= 37 * 24, "no release before interval and grace are over");
  } else if (began && release.trigger === "guardian_claim") {
    assert.ok(
      seen.concurring.size >= QUORUM,
      "no release without a quorum; a single guardian releases nothing",
    );
  } else if (began) {
    assert.ok(does.kind === "release" && does.alive, "only the owner releases by hand");
  }
  if (seen.state === "releasing" && state === "releasing") {
    assert.equal(release.release_at, seen.releaseAt, "nothing moves the end of a window that runs");
  }
  if (seen.state === "releasing" && state === "active") {
    const owner = (does.kind === "veto" || does.kind === "checkIn") && does.alive;
    assert.ok(owner || seen.rejecting.size >= QUORUM, "a single guardian blocks nothing");
  }
  if (state === "released" && seen.state !== "released") {
    seen.releases++;
    assert.ok(
      Date.parse(release.released_at) >= Date.parse(release.release_at),
      "not before the window's end",
    );
    assert.ok(
      seen.heirLeft || shown.heirs.some(({ status }: { status: string }) => status === "confirmed"),
      "nothing is released to nobody",
    );
  }
  seen.state = state;
  seen.releaseAt = release.release_at;
}

/** Transitions of the vault raise its version by one, and each has its entry. */
async function assertOneEntryForEachTransition({ world, id }: Vault): Promise<void> {
  const { rows: [found] } = await world.sql.query(
    `select v.version::int, count(e.*)::int as entries
       from app.vaults v left join app.vault_audit_entries e
         on e.vault_id = v.id and e.action in (
           'release.begin', 'release.complete', 'release.block', 'release.cancel', 'release.rearm')
      where v.id = $1 group by v.version`,
    [id],
  );
  assert.equal(found.entries, found.version);
}
