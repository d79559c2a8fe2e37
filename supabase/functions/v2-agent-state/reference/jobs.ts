/** The scheduled jobs, and addresses that ask for news or want none. Spec 4.8. */

import { z } from "zod";
import { RETENTION } from "../../_shared/domain/retention.ts";
import type { Operations } from "../../_shared/reference/operation.ts";
import { count } from "../../_shared/reference/shapes.ts";
import { PURGE } from "../handlers/jobs.ts";
import { CAPTURE, REFUSAL, TOKEN } from "../handlers/marketing.ts";
import type { Scene } from "./scene.ts";

const PURGED = z.object(Object.fromEntries(Object.keys(RETENTION).map((name) => [name, count(0)])));
const PURGE_REPORT = z.object({
  dry_run: z.boolean().meta({ examples: [false] }),
  complete: z.boolean().meta({ examples: [true] }).describe("Whether nothing is left that was due"),
  lapsed_snapshots: count(0).describe("Snapshots whose uploads lapsed, given up and refunded"),
  purged: PURGED.describe("Rows removed; for `failed_uploads`, with their objects"),
}).meta({ id: "PurgeReport" });

export const JOB_OPERATIONS: Operations<Scene> = {
  "POST /retention/purge": {
    tag: "Jobs",
    summary: "Give up lapsed uploads, and remove what nobody needs any more",
    description: "Any number may run at once, and each may be killed. The README says what is kept how long.",
    query: PURGE,
    fields: { dry_run: "`1` or `true`: count only, and change nothing" },
    answers: { 200: { body: PURGE_REPORT } },
    errors: ["storage_unavailable"],
    example: () => ({ query: { dry_run: "1" } }),
  },
  "POST /lifecycle/dispatch": {
    tag: "Jobs",
    summary: "Owe people the mails that are due, and send what waits",
    answers: { 200: { body: z.object({ queued: count(1), sent: count(2), failed: count(0) }) } },
    example: () => ({}),
  },
};

export const MARKETING_OPERATIONS: Operations<Scene> = {
  "POST /marketing/capture": {
    tag: "News",
    summary: "Ask for news at an address",
    description:
      "The answer is the same whether the address is known or not. It counts once it is confirmed.",
    body: CAPTURE,
    fields: { email: "Where the news should go", source: "Where it was asked for" },
    answers: { 202: { body: z.object({ status: z.literal("confirmation_sent") }) } },
    example: () => ({ body: { email: "erin@example.com", source: "homepage" } }),
  },
  "POST /marketing/confirm": {
    tag: "News",
    summary: "Confirm an address with the token of the mail that was sent to it",
    body: TOKEN,
    fields: { token: "From the mail" },
    answers: { 200: { body: z.object({ status: z.literal("subscribed") }) } },
    errors: ["confirmation_not_found"],
    example: ({ confirmationToken }) => ({ body: { token: confirmationToken } }),
  },
  "POST /marketing/unsubscribe": {
    tag: "News",
    summary: "Get no more mail but what an account needs",
    description:
      "Mail programs send the token in the query, and a form that says `List-Unsubscribe=One-Click` " +
      "(RFC 8058): then whatever the body holds is not read. Without it the body carries the token.",
    query: REFUSAL,
    body: TOKEN,
    media: ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"],
    fields: { token: "From the mail" },
    answers: { 200: { body: z.object({ status: z.literal("unsubscribed") }) } },
    example: ({ unsubscribeToken }) => ({ body: { token: unsubscribeToken } }),
  },
};
