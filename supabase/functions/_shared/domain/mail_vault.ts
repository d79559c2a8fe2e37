/** The mails about vaults. Their facts come from the SQL that queues them; docs/vault.md says who gets which. */

import type { Paragraph, Template } from "./mail.ts";

const TRIGGERS: Record<string, string> = {
  dead_man_switch: "its owner has missed a check-in",
  manual: "its owner has started it",
  guardian_claim: "its guardians have agreed that it is time",
};
const CAUSES: Record<string, string> = {
  vetoed: "its owner has said no",
  checked_in: "its owner has checked in",
  contested: "its guardians have voted against it",
};
const OUTCOMES: Record<string, string> = {
  contested: "was rejected",
  expired: "expired without enough votes",
  withdrawn: "was withdrawn",
};
const CHANGES: Record<string, string> = {
  remove_heir: "An heir is to be removed",
  remove_guardian: "A guardian is to be removed",
  configure: "Its release settings are to be weakened",
};

/** Writes the paragraphs that show a token, and what it is for. */
type ShowToken = (fact: Record<string, string>, use: string) => Paragraph[];

/** Makes the templates. `time` writes an instant as people read it. */
export function vaultTemplates(
  showToken: ShowToken,
  time: (iso: string) => string,
): Record<string, Template> {
  const about = (needs: readonly string[], write: Template["write"], page?: string): Template => ({
    needs: ["vault_name", "vault_id", ...needs],
    write,
    ...(page === undefined ? {} : { page }),
  });
  return {
    vault_invitation: about(["role", "token"], (fact) => ({
      subject: `You are asked to be ${
        fact.role === "heir" ? "an heir" : "a guardian"
      } of “${fact.vault_name}”`,
      paragraphs: [
        `${fact.inviter ?? "Somebody"} asks you to be ` +
        (fact.role === "heir"
          ? `an heir of the vault “${fact.vault_name}” on Agent State: to receive what is in it one day.`
          : `a guardian of the vault “${fact.vault_name}” on Agent State: to say, with others, when it is time.`),
        ...showToken(fact, "To accept"),
        "Keep this mail: the code is also what you will use later. " +
        (fact.expires_at === undefined ? "" : `The invitation is good until ${time(fact.expires_at)}.`),
      ],
    }), "vault/invitation"),
    vault_person_accepted: about(["person", "role"], (fact) => ({
      subject: `${fact.person} has accepted in “${fact.vault_name}”`,
      paragraphs: [
        `${fact.person} has accepted to be ${
          fact.role === "heir" ? "an heir" : "a guardian"
        } of your vault ` +
        `“${fact.vault_name}”. They are in once you have made sure that it is them, and confirmed.`,
      ],
    })),
    vault_person_left: about(["person", "role", "status"], (fact) => ({
      subject: `${fact.person} is not ${
        fact.role === "heir" ? "an heir" : "a guardian"
      } of “${fact.vault_name}”`,
      paragraphs: [
        fact.status === "expired"
          ? `${fact.person} has not accepted in time. Invite them again if you wish.`
          : `${fact.person} has declined. What was wrapped for them here has been deleted.`,
      ],
    })),
    vault_check_in_due: about(["deadline"], (fact) => ({
      subject: `Check in to your vault “${fact.vault_name}”`,
      paragraphs: [
        `You have not checked in to your vault “${fact.vault_name}” for a while.`,
        `If you do not until ${time(fact.deadline!)}, its release to your heirs begins.`,
      ],
    })),
    vault_releasing: about(["trigger", "release_at"], (fact) => ({
      subject: `The release of “${fact.vault_name}” has begun`,
      paragraphs: [
        `The release of the vault “${fact.vault_name}” has begun: ${
          TRIGGERS[fact.trigger!] ?? fact.trigger
        }.`,
        `It goes to the heirs on ${time(fact.release_at!)}. Until it is picked up its owner can veto.`,
      ],
    })),
    vault_release_canceled: about(["cause"], (fact) => ({
      subject: `The release of “${fact.vault_name}” is off`,
      paragraphs: [
        `The vault “${fact.vault_name}” is not released: ${CAUSES[fact.cause!] ?? fact.cause}.`,
      ],
    })),
    vault_release_blocked: about(["reason"], (fact) => ({
      subject: `The vault “${fact.vault_name}” cannot be released`,
      paragraphs: [
        `It is time to release the vault “${fact.vault_name}”, but ` +
        (fact.reason === "no_confirmed_heir"
          ? "no heir is confirmed, and nothing is released to nobody."
          : "its confirmed heirs could open nothing: too few shares, or no key, are wrapped for them."),
        "It is released as soon as that changes.",
      ],
    })),
    vault_released: about(["token"], (fact) => ({
      subject: `The vault “${fact.vault_name}” is released to you`,
      paragraphs: [
        `The vault “${fact.vault_name}” is released, and you are an heir of it.`,
        ...showToken(fact, "To pick it up"),
        `The vault's id is ${fact.vault_id}. You also need the private key that you made when you accepted.`,
      ],
    }), "vault/pick-up"),
    vault_released_notice: about(["released_at"], (fact) => ({
      subject: `The vault “${fact.vault_name}” is released`,
      paragraphs: [
        `The vault “${fact.vault_name}” was released to its heirs on ${time(fact.released_at!)}.`,
        "Its owner can veto until the first of them picks it up.",
      ],
    })),
    vault_picked_up: about(["person"], (fact) => ({
      subject: `${fact.person} has picked up “${fact.vault_name}”`,
      paragraphs: [`${fact.person} has picked up the vault “${fact.vault_name}”.`],
    })),
    vault_rearmed: about(["key_epoch"], (fact) => ({
      subject: `The vault “${fact.vault_name}” is armed again`,
      paragraphs: [`The vault “${fact.vault_name}” has new keys. Shares from before are worth nothing.`],
    })),
    vault_claim_opened: about(["person", "claim_id", "token"], (fact) => ({
      subject: `${fact.person} claims that it is time to release “${fact.vault_name}”`,
      paragraphs: [
        `${fact.person}, a guardian as you are, claims that it is time to release the vault “${fact.vault_name}”.`,
        "Vote to concur, or to reject if you know better.",
        ...showToken(fact, "To vote"),
        `The vault's id is ${fact.vault_id}, the claim's ${fact.claim_id}.`,
      ],
    }), "vault/claim"),
    vault_claim_notice: about(["person"], (fact) => ({
      subject: `${fact.person} claims that it is time to release “${fact.vault_name}”`,
      paragraphs: [
        `${fact.person} claims that it is time to release your vault “${fact.vault_name}”. ` +
        "The other guardians have been asked to vote.",
        "If that is wrong, veto.",
      ],
    })),
    vault_claim_ended: about(["outcome"], (fact) => ({
      subject: `A claim on “${fact.vault_name}” has ended`,
      paragraphs: [
        `The claim that it is time to release “${fact.vault_name}” ${
          OUTCOMES[fact.outcome!] ?? "has ended"
        }.`,
      ],
    })),
    vault_change_pending: about(["change", "executes_at"], (fact) => ({
      subject: `A change of your vault “${fact.vault_name}” waits`,
      paragraphs: [
        `${CHANGES[fact.change!] ?? "It is to be changed"}, on ${time(fact.executes_at!)}.`,
        "If that was not you, cancel it.",
      ],
    })),
    vault_change_done: about(["change"], (fact) => ({
      subject: `Your vault “${fact.vault_name}” was changed`,
      paragraphs: [`A change that waited has taken effect (${fact.change}).`],
    })),
  };
}
