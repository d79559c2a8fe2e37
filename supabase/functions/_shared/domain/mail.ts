/** The mails that the service sends, as pure templates. What people chose is kept to one line, cut, and escaped. */

import { encodeBase64, sha256 } from "./bytes.ts";
import { LIFECYCLE_TEMPLATES } from "./lifecycle_mail.ts";
import { vaultTemplates } from "./mail_vault.ts";

const TOKEN_PREFIX = "inv_";
const TOKEN_BYTES = 32;
const FACT_CHARACTERS_MAX = 100;
const SUBJECT_CHARACTERS_MAX = 150;

/**
 * Line breaks and other controls, which could begin a header or a paragraph of somebody else's, and marks that
 * reverse the direction of text or hide it.
 */
const UNPRINTABLE =
  /[\p{Cc}\p{Zl}\p{Zp}\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]+/gu;

const ESCAPES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** A mail without its addresses. */
export interface Message {
  subject: string;
  text: string;
  html: string;
}

/** Names and numbers that a template puts in. */
export type MailFacts = Readonly<Record<string, unknown>>;

/** A paragraph of text, or a code or link by itself. */
export type Paragraph = string | { code: string } | { link: string };

/** A mail as a template writes it. */
interface Draft {
  subject: string;
  paragraphs: Paragraph[];
}

/** What several templates say in the same words. */
interface Phrases {
  howToAccept(fact: Record<string, string>): Paragraph[];
  inviterOf(fact: Record<string, string>): string;
  seatsOf(fact: Record<string, string>): string;
}

/** How a kind of mail is written. */
export interface Template {
  /** Without these there is nothing to say. */
  needs: readonly string[];
  /** Whether people may have it left out; then each such mail says how. */
  mayBeRefused?: true;
  write(fact: Record<string, string>, phrases: Phrases): Draft;
  /** Page of the dashboard that a token leads to, when it is not the one for invitations to teams. */
  page?: string;
}

const TEMPLATES: Record<string, Template> = {
  ...LIFECYCLE_TEMPLATES,
  team_invitation: {
    needs: ["team_name", "role", "token", "expires_at"],
    write: (fact) => ({
      subject: `Invitation to the team “${fact.team_name}”`,
      paragraphs: [
        `${inviterOf(fact)} invites you to the team “${fact.team_name}” on Agent State. ` +
        `Your role would be “${fact.role}”.`,
        ...howToAccept(fact),
      ],
    }),
  },
  guardian_invitation: {
    needs: ["team_name", "token", "expires_at"],
    write: (fact) => ({
      subject: `Invitation to be a guardian of the team “${fact.team_name}”`,
      paragraphs: [
        `${inviterOf(fact)} asks you to be a guardian of the team “${fact.team_name}” on Agent State.`,
        "A guardian helps the team to recover its keys. A guardian cannot read what the team keeps.",
        ...howToAccept(fact),
      ],
    }),
  },
  seat_added: {
    needs: ["team_name", "seat_count"],
    write: (fact) => ({
      subject: `A seat was added to the team “${fact.team_name}”`,
      paragraphs: [
        `All seats of the team “${fact.team_name}” were taken when one more was needed, so a seat was added to ` +
        `your subscription.`,
        `The team now has ${seatsOf(fact)}. Your next invoice shows the change.`,
      ],
    }),
  },
  webhook_disabled: {
    needs: ["host", "reason"],
    write: (fact) => ({
      subject: `Your webhook at ${fact.host} was disabled`,
      paragraphs: [
        fact.reason === "gone"
          ? `Your endpoint at ${fact.host} answered that it is gone (410), so its webhook was disabled.`
          : `Your endpoint at ${fact.host} has taken no delivery for five days, so its webhook was disabled.`,
        "Nothing more is sent to it. To receive events again, register a new webhook.",
      ],
    }),
  },
  seat_limit_reached: {
    needs: ["team_name", "seat_count"],
    write: (fact) => ({
      subject: `No seat is free in the team “${fact.team_name}”`,
      paragraphs: [
        `${guestOf(fact)} could not be let into the team “${fact.team_name}”: ` +
        `it has ${seatsOf(fact)}, and none is free.`,
        "Free a seat by removing a member, or move to a plan that adds seats by itself.",
      ],
    }),
  },
  ...vaultTemplates(showToken, readableTime),
};

/** The kinds of mail that there are. */
export const MAIL_KINDS: readonly string[] = Object.keys(TEMPLATES);

/** Whether a mail of this kind carries a token that is made for it alone. */
export function carriesToken(kind: string): boolean {
  return Object.hasOwn(TEMPLATES, kind) &&
    TEMPLATES[kind]!.needs.includes("token");
}

/** Whether people may refuse mails of this kind, because their account does not need them. */
export function mayBeRefused(kind: string): boolean {
  return Object.hasOwn(TEMPLATES, kind) && TEMPLATES[kind]!.mayBeRefused === true;
}

/** What stands for an address where it is not kept: the SHA-256 of its lower case. */
export function addressHash(email: string): Uint8Array {
  return sha256(email.trim().toLowerCase());
}

/** Where the dashboard confirms an address, and where it takes a refusal of mail. */
export function confirmationLink(appUrl: string, token: string): string {
  return `${appUrl}/marketing/confirm#token=${token}`;
}
export function unsubscribeLink(appUrl: string, token: string): string {
  return `${appUrl}/marketing/unsubscribe#token=${token}`;
}

/** Spells 32 random bytes as an invitation's token: `inv_` and 43 characters that need no escaping in an address. */
export function invitationToken(randomBytes: Uint8Array): string {
  if (randomBytes.length !== TOKEN_BYTES) {
    throw new RangeError(`A token is made of ${TOKEN_BYTES} bytes`);
  }
  const text = encodeBase64(randomBytes).replace(/=+$/, "").replaceAll("+", "-")
    .replaceAll("/", "_");
  return TOKEN_PREFIX + text;
}

/** Where a mail of this kind leads, in the dashboard. The token is in the fragment, which no server is sent. */
export function tokenLink(kind: string, appUrl: string, token: string): string {
  const page = Object.hasOwn(TEMPLATES, kind) ? TEMPLATES[kind]!.page : undefined;
  return `${appUrl}/${page ?? "invitations/accept"}#token=${token}`;
}

/**
 * Writes a mail. Returns undefined for a kind that there is no template for, and when a fact that the template needs
 * is missing.
 */
export function renderMail(
  kind: string,
  facts: MailFacts,
): Message | undefined {
  if (!Object.hasOwn(TEMPLATES, kind)) return undefined;
  const { needs, write, mayBeRefused } = TEMPLATES[kind]!;
  const printable = Object.entries(facts).flatMap(([name, value]) => {
    const fact = typeof value === "string" || typeof value === "number" ? oneLine(String(value)) : "";
    return fact === "" ? [] : [
      [
        name,
        name.endsWith("link") ? fact : cut(fact, FACT_CHARACTERS_MAX),
      ] as const,
    ];
  });
  const fact = Object.fromEntries(printable);
  if (needs.some((name) => !Object.hasOwn(fact, name))) return undefined;
  const draft = write(fact, { howToAccept, inviterOf, seatsOf });
  const paragraphs = [...draft.paragraphs, ...(mayBeRefused ? howToRefuse(fact) : [])];
  return {
    subject: cut(draft.subject, SUBJECT_CHARACTERS_MAX),
    text: paragraphs.map(toText).join("\n\n") + "\n",
    html: `<!doctype html><html lang="en"><body>${paragraphs.map(toHtml).join("")}</body></html>`,
  };
}

/** Escapes text for an element or a quoted attribute. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character]!);
}

/** The token as a code, and as a link where there is a page for it. `use` is what it is for: `To accept`. */
function showToken(fact: Record<string, string>, use: string): Paragraph[] {
  return fact.link === undefined
    ? [`${use}, enter this code where you use Agent State:`, { code: fact.token! }]
    : [`${use}, open this page:`, { link: fact.link }, "Or enter this code there:", { code: fact.token! }];
}

function howToAccept(fact: Record<string, string>): Paragraph[] {
  return [
    ...showToken(fact, "To accept"),
    `The invitation is for you alone and good until ${readableTime(fact.expires_at!)}. ` +
    "If you did not expect it, ignore this mail.",
  ];
}

/** Without a page for it there is the button of the mail program, and the code. */
function howToRefuse(fact: Record<string, string>): Paragraph[] {
  if (fact.unsubscribe_link !== undefined) {
    return ["To get no more mails like this one:", { link: fact.unsubscribe_link }];
  }
  if (fact.unsubscribe_code === undefined) return [];
  return [
    "To get no more mails like this one, unsubscribe in your mail program, or with this code where you use " +
    "Agent State:",
    { code: fact.unsubscribe_code },
  ];
}

function inviterOf(fact: Record<string, string>): string {
  return fact.inviter ?? "Somebody";
}

function guestOf(fact: Record<string, string>): string {
  return fact.email_domain === undefined ? "Somebody" : `Somebody at ${fact.email_domain}`;
}

function seatsOf(fact: Record<string, string>): string {
  return fact.seat_count === "1" ? "1 seat" : `${fact.seat_count} seats`;
}

/** `2026-11-27T12:00:00.000Z` as people read it. */
function readableTime(iso: string): string {
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`;
}

function toText(paragraph: Paragraph): string {
  if (typeof paragraph === "string") return paragraph;
  return `    ${"code" in paragraph ? paragraph.code : paragraph.link}`;
}

function toHtml(paragraph: Paragraph): string {
  if (typeof paragraph === "string") return `<p>${escapeHtml(paragraph)}</p>`;
  if ("code" in paragraph) {
    return `<p><code>${escapeHtml(paragraph.code)}</code></p>`;
  }
  const link = escapeHtml(paragraph.link);
  return `<p><a href="${link}">${link}</a></p>`;
}

function oneLine(text: string): string {
  return text.toWellFormed().replace(UNPRINTABLE, " ").replace(/\s+/g, " ")
    .trim();
}

/** At most `charactersMax` code points. */
function cut(text: string, charactersMax: number): string {
  const characters = [...text];
  return characters.length <= charactersMax ? text : `${characters.slice(0, charactersMax - 1).join("")}…`;
}
