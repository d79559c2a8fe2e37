/** Operations of the newsletter: for everybody, and for whoever has the link from a mail. */

import { addressHash } from "../../../supabase/functions/_shared/domain/mail.ts";
import { signToken } from "../../../supabase/functions/_shared/domain/signed_token.ts";
import type { World } from "../harness.ts";
import { MAIL_SETTINGS } from "../jobs.ts";
import { newAddress } from "../teams.ts";
import { counter } from "./counting.ts";
import type { Operation } from "./mod.ts";

const SECRET = MAIL_SETTINGS.linkSecrets[0]!;

const newEmail = () => `canary-${crypto.randomUUID()}@example.com`;

/** An address that waits to be confirmed, and the id that its token is made for. Its mail is not what this is about. */
async function newContact(world: World): Promise<{ email: string; id: string }> {
  const email = newEmail();
  const { rows } = await world.sql.query(
    "insert into app.marketing_contacts (email, address_hash) values ($1, $2) returning id",
    [email, addressHash(email)],
  );
  return { email, id: rows[0].id };
}

export const MARKETING_OPERATIONS: Operation[] = [
  {
    route: "POST /marketing/capture",
    name: "ask for news",
    opens: "the public",
    status: 202,
    effect: "once",
    prepare(world) {
      const email = newEmail();
      return Promise.resolve({
        path: "/marketing/capture",
        options: { body: { email, source: "homepage" }, headers: newAddress() },
        canaries: [],
        owned: [],
        count: counter(world, "select count(*) as n from app.marketing_contacts where email = $1", [email]),
      });
    },
  },
  {
    route: "POST /marketing/confirm",
    name: "confirm an address",
    opens: "signed link",
    status: 200,
    effect: "once",
    async prepare(world) {
      const { email, id } = await newContact(world);
      const token = signToken("confirm", new TextEncoder().encode(id), SECRET);
      return {
        path: "/marketing/confirm",
        options: { body: { token }, headers: newAddress() },
        canaries: [email, id],
        owned: [id],
        count: counter(
          world,
          "select count(*) as n from app.marketing_contacts where id = $1 and confirmed_at is not null",
          [id],
        ),
      };
    },
  },
  {
    route: "POST /marketing/unsubscribe",
    name: "refuse news",
    opens: "signed link",
    status: 200,
    turnedAway: 400,
    effect: "once",
    async prepare(world) {
      const { email, id } = await newContact(world);
      const hash = addressHash(email);
      return {
        path: "/marketing/unsubscribe",
        options: { body: { token: signToken("unsubscribe", hash, SECRET) }, headers: newAddress() },
        canaries: [email, id],
        owned: [id],
        count: counter(world, "select count(*) as n from app.mail_refusals where address_hash = $1", [hash]),
      };
    },
  },
];
