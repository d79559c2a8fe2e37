/** The mails of the lifecycle sweep, and the one that asks whether an address wants news. */

import type { Template } from "./mail.ts";

const MILLI_PER_DOLLAR = 100_000;

/** Those that may be refused say nothing that an account needs. */
export const LIFECYCLE_TEMPLATES: Record<string, Template> = {
  welcome: {
    needs: [],
    mayBeRefused: true,
    write: () => ({
      subject: "Welcome to Agent State",
      paragraphs: [
        "Your account is ready. Agent State keeps what your agents remember, encrypted before it leaves them: " +
        "nobody here can read it, and nobody here can recover a key that you lose.",
        "Make a key for your first agent, store a snapshot, and try a restore before you need one.",
      ],
    }),
  },
  first_snapshot: {
    needs: [],
    mayBeRefused: true,
    write: () => ({
      subject: "Your first snapshot is stored",
      paragraphs: [
        "Your agent has stored its first snapshot. From now on its memory outlives the machine that it runs on.",
        "A backup is as good as its restore: fetch the snapshot on another machine once, decrypt it, and compare.",
      ],
    }),
  },
  credits_low: {
    needs: ["credits_milli"],
    write: (fact) => ({
      subject: "Your credit is running low",
      paragraphs: [
        `${
          dollarsOf(fact)
        } of credit is left on your account. When it is used up, agents with paid keys can read, ` +
        "but store nothing more.",
        "Add credit before that happens. We write again only when it is nearly gone.",
      ],
    }),
  },
  credits_out: {
    needs: ["credits_milli"],
    write: (fact) => ({
      subject: "Your credit is used up",
      paragraphs: [
        `${
          dollarsOf(fact)
        } of credit is left on your account: not enough for a snapshot of the largest size. ` +
        "Agents with paid keys are refused where it does not suffice (402 insufficient_credits).",
        "What is stored stays, and can be read. Add credit, and the agents go on where they stopped.",
      ],
    }),
  },
  seats_full: {
    needs: ["team_name", "seat_count", "adds_seats"],
    write: (fact, { seatsOf }) => ({
      subject: `All seats of the team “${fact.team_name}” are taken`,
      paragraphs: [
        `The team “${fact.team_name}” has ${seatsOf(fact)}, and none is free.`,
        fact.adds_seats === "yes"
          ? "The next invitation adds a seat to your subscription, which your invoice will show."
          : "The next invitation will be refused. Free a seat by removing a member, or move to a larger plan.",
      ],
    }),
  },
  subscription_ending: {
    needs: ["plan"],
    write: (fact) => ({
      subject: "Your subscription was canceled",
      paragraphs: [
        `Your subscription to the plan “${fact.plan}” was canceled` +
        (fact.ends_at === undefined ? "." : `; it is paid for until ${fact.ends_at.slice(0, 10)}.`),
        "Your account now has the devices and seats of the Free plan. Nothing that you stored is removed.",
        "If that was not your intention, subscribe again.",
      ],
    }),
  },
  invitation_reminder: {
    needs: ["team_name", "role", "token", "expires_at"],
    mayBeRefused: true,
    write: (fact, { howToAccept, inviterOf }) => ({
      subject: `Your invitation to the team “${fact.team_name}” is still open`,
      paragraphs: [
        `${
          inviterOf(fact)
        } has invited you to the team “${fact.team_name}” on Agent State, as “${fact.role}”. ` +
        "The code in this mail takes the place of the one that you had before.",
        ...howToAccept(fact),
      ],
    }),
  },
  certificate_expiring: {
    needs: ["team_name", "expires_at"],
    write: (fact) => ({
      subject: `The sign-on certificate of the team “${fact.team_name}” expires soon`,
      paragraphs: [
        `The certificate that the identity provider of the team “${fact.team_name}” signs with expires on ` +
        `${fact.expires_at!.slice(0, 10)}. After that nobody can sign in through it.`,
        "Renew it at the provider, and then give its new metadata to the single sign-on settings of the team.",
      ],
    }),
  },
  marketing_confirmation: {
    needs: ["token"],
    write: (fact) => ({
      subject: "Do you want news of Agent State?",
      paragraphs: [
        "Somebody, probably you, has asked for news of Agent State at this address.",
        ...(fact.link === undefined
          ? ["If you want them, enter this code where you asked:", { code: fact.token! }]
          : ["If you want them, open this page:", { link: fact.link }]),
        "If you do not, ignore this mail: without your consent nothing more is sent, and the address is forgotten " +
        "after some days.",
      ],
    }),
  },
};

/** Thousandths of a cent as people read money. */
function dollarsOf(fact: Record<string, string>): string {
  return `$${(Math.floor(Number(fact.credits_milli) / MILLI_PER_DOLLAR * 100) / 100).toFixed(2)}`;
}
