/** Every code that can be raised is in the catalogue, with the status that the spec gives it, and only there. */

import assert from "node:assert/strict";
import { ApiError, CATALOGUE, type ErrorCode, findCode } from "../../supabase/functions/_shared/errors.ts";
import { locate, readSources, type Source, withoutComments, withoutSqlComments } from "./sources.ts";

/** Spec section 7. The provider of `no_<provider>_subscription` is Polar. */
const SPEC: [status: number, code: string][] = [
  [400, "invalid_json"],
  [400, "missing_field:<field>"],
  [400, "bad_policy_hash"],
  [400, "bad_payload_hash"],
  [400, "bad_sequence"],
  [400, "genesis_violation"],
  [400, "missing_parent_snapshot"],
  [400, "byte_size_mismatch"],
  [400, "missing_since_param"],
  [400, "non_aggregate_field"],
  [401, "missing_or_invalid_bearer_token"],
  [401, "session_jwt_required"],
  [401, "invalid_session"],
  [401, "invalid_api_key"],
  [401, "api_key_revoked"],
  [401, "owner_not_found"],
  [402, "insufficient_credits"],
  [403, "not_a_team_member"],
  [403, "forbidden_role"],
  [403, "telemetry_disabled"],
  [403, "no_grant"],
  [403, "seat_limit_reached"],
  [403, "plan_does_not_support_seats"],
  [403, "invalid_webhook_signature"],
  [404, "no_snapshots_for_agent"],
  [404, "snapshot_not_found"],
  [404, "route_not_found"],
  [404, "no_replication_entries"],
  [404, "no_polar_subscription"],
  [409, "sequence_conflict"],
  [409, "sequence_gap"],
  [409, "split_brain_detected"],
  [413, "ciphertext_too_large"],
  [413, "chunk_too_large"],
  [503, "storage_unavailable"],
];

/** Messages of schemas that are no codes: the parser turns them into `missing_field:…` and `invalid_field:…`. */
const GENERIC_MESSAGES = ["missing", "invalid"];

const TYPESCRIPT = readSources("supabase/functions", ".ts")
  .map(({ path, text }) => ({ path, text: withoutComments(text) }));
const MIGRATIONS = readSources("supabase/migrations", ".sql")
  .map(({ path, text }) => ({ path, text: withoutSqlComments(text) }));

for (const [status, code] of SPEC) {
  Deno.test(`${code} is answered with ${status}`, () => {
    assert.equal(findCode(code)?.status, status);
    assert.equal(new ApiError(code as ErrorCode).status, status);
  });
}

Deno.test("a family's code takes the status of its family, and nothing else resembles one", () => {
  assert.equal(findCode("missing_field:agent_id"), CATALOGUE["missing_field:<field>"]);
  assert.equal(findCode("invalid_field:a:b"), CATALOGUE["invalid_field:<field>"]);
  for (const code of ["missing_field", "sequence_gap:x", "", ":", "toString", "__proto__", "constructor"]) {
    assert.equal(findCode(code), undefined, code);
  }
});

Deno.test("codes are spelled in lower case, and every one says when it is answered", () => {
  for (const [code, { when }] of Object.entries(CATALOGUE)) {
    assert.match(code, /^[a-z]+(?:_[a-z]+)+(?::<field>)?$/);
    assert.match(when, /^[A-Z`].*[^.]$/, code);
    assert.doesNotMatch(when, /[|\n]/, `${code}: this goes into a table`);
  }
});

Deno.test("every code that a migration refuses with is in the catalogue", () => {
  const refusals = MIGRATIONS.flatMap(findRefusals);
  assert.ok(refusals.length > 10, "the reader of migrations finds hardly any refusal");
  for (const { code, place } of refusals) assert.ok(findCode(code), `${place}: ${code}`);
});

Deno.test("every code that TypeScript refuses with is in the catalogue", () => {
  const codes = TYPESCRIPT.flatMap(findCodes);
  assert.ok(codes.length > 10, "the reader of TypeScript finds hardly any code");
  for (const { code, place } of codes) {
    assert.ok(findCode(code) || GENERIC_MESSAGES.includes(code), `${place}: ${code}`);
  }
});

Deno.test("a status of a refusal is named in the catalogue and nowhere else", () => {
  const patterns = [
    /\.(?:json|text|body|html|newResponse|status)\s*\([^;]*?,?\s*\b[45]\d\d\b\s*[,)]/g,
    /\bstatus\s*:\s*[45]\d\d\b/g,
    /\bHTTPException\b/g,
  ];
  const answering = TYPESCRIPT.filter(({ path }) =>
    /\/(?:handlers|middleware|flows)\/|\/app\.ts$/.test(path)
  );
  const wrong = answering.flatMap((source) =>
    patterns.flatMap((pattern) =>
      Array.from(source.text.matchAll(pattern), (match) => locate(source, match.index))
    )
  );
  assert.deepEqual(wrong, []);
});

interface Use {
  code: string;
  place: string;
}

/**
 * The codes of `app.refuse('…'` and `app.refuse(case when … then '…' else '…' end`, and those that a function hands
 * to its caller as `refusal := …`.
 */
function findRefusals(source: Source): Use[] {
  const calls = source.text.matchAll(/(?<!function )\bapp\.refuse\s*\(/g);
  const handedOn = Array.from(source.text.matchAll(/\brefusal := ([^;]*);/g)).flatMap((assignment) =>
    Array.from(assignment[1]!.matchAll(/(?:^|then\s+|else\s+)'([^']*)'/g), (match) => ({
      code: match[1]!,
      place: locate(source, assignment.index),
    }))
  );
  return [
    ...handedOn,
    ...Array.from(calls).flatMap((call) => {
      const place = locate(source, call.index);
      const argument = firstArgument(source.text.slice(call.index + call[0].length));
      if (/\.refusal$/.test(argument)) return [];
      const literals = argument.startsWith("'")
        ? [/^'([^']*)'/.exec(argument)![1]!]
        : Array.from(argument.matchAll(/\b(?:then|else)\s+'([^']*)'/g), (match) => match[1]!);
      assert.notEqual(literals.length, 0, `${place}: spell the code in the call of app.refuse`);
      return literals.map((code) => ({ code, place }));
    }),
  ];
}

/** The text up to the comma or parenthesis that ends the first argument. */
function firstArgument(text: string): string {
  let depth = 0;
  let quoted = false;
  for (const [i, character] of Array.from(text).entries()) {
    if (character === "'") quoted = !quoted;
    else if (quoted) continue;
    else if (character === "(") depth++;
    else if (depth === 0 && (character === "," || character === ")")) return text.slice(0, i).trim();
    else if (character === ")") depth--;
  }
  throw new Error("A call does not end");
}

/** The codes that errors are made with, that schemas carry as messages, and that helpers of schemas are given. */
function findCodes(source: Source): Use[] {
  const inSchemas = /\/(?:handlers|middleware)\//.test(source.path);
  const patterns = [
    /\bnew ApiError\(\s*(?:[^"();]*\?\s*)?"([^"]+)"/g,
    ...(inSchemas
      ? [
        /\bmessage:\s*"([^"]+)"/g,
        /\bz\.[\w.]+\(\s*"([^"]+)"\s*\)/g,
        /(?<!z)\.(?:min|max|length|regex|refine|int|positive|nonnegative)\([^"\n]*,\s*"([^"]+)"\s*,?\s*\)/g,
        /\brefuse\(\s*(?:c,\s*)?"([^"]+)"/g,
        /\b(?:hash|digits)\(\s*"([^"]+)"/g,
        /\b(?:base64|limitBody)\(\s*\w+,\s*"([^"]+)"/g,
      ]
      : []),
  ];
  // `z.literal("…")` is a value, not a message.
  return patterns.flatMap((pattern) =>
    Array.from(source.text.matchAll(pattern))
      .filter((match) => !match[0].startsWith("z.literal"))
      .map((match) => ({ code: match[1]!, place: locate(source, match.index) }))
  );
}
