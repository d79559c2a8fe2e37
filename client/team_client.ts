/** Teams: a memory that several people share and the service cannot read. Specification 4.5. */

import { type AuditExport, type AuditHead, type ChainVerdict, verifyAudit } from "./verify.ts";
import { encodeBase64 } from "./bytes.ts";
import type { Json } from "./canonical_json.ts";
import { ConflictError, IntegrityError, isTransient, RollbackError } from "./errors.ts";
import { createQueue } from "./queue.ts";
import { createMemoryStore, readJson, type Store, writeJson } from "./store.ts";
import { type KeyRing, type MemberKeys, newKeyRing, unwrapKeyRing, wrapKeyRing } from "./team_key.ts";
import { openMemory, sealMemory, type StoredMemory, type TeamMemory } from "./team_memory.ts";
import { commitRotation, isRotationPending, prepareRotation, type RotationOptions } from "./team_rotation.ts";
import { type ServiceOptions, Transport } from "./transport.ts";

/** Entries of a page: an entry may have 256 KiB. */
const PAGE = 100;
/** How often something that is not safe to repeat is looked for before it is sent again. */
const SEND_TRIES = 4;

export type TeamRole = "admin" | "write" | "read";

/** Where the service is and who is asking: `token` is a session. */
export interface TeamOptions extends ServiceOptions {
  /** The subject of the session. */
  memberId: string;
  keys: MemberKeys;
  /** Keeps members' public keys, a rotation that is under way, and how far the ledger and the memory were seen. */
  store?: Store;
}

/** A team as the service lists it. */
export interface TeamInfo {
  id: string;
  name: string;
  role: TeamRole;
  rotation_seq: number;
  created_at: string;
}

interface Grant {
  wrapped_dek: string;
  rotation_seq: number;
}

interface Member {
  member_id: string;
  role: TeamRole;
  status: string;
  has_grant: boolean;
}

/** One team, as one of its members. */
export class TeamClient {
  readonly #transport: Transport;
  readonly #options: TeamOptions;
  readonly #store: Store;
  readonly #inTurn = createQueue();
  #ring: KeyRing | undefined;
  #lastSeq = -1;

  private constructor(readonly teamId: string, options: TeamOptions) {
    this.#options = options;
    this.#transport = new Transport(options);
    this.#store = options.store ?? createMemoryStore();
  }

  /** The teams of the caller. */
  static async list(options: ServiceOptions): Promise<TeamInfo[]> {
    const { teams } = await new Transport(options).request<{ teams: TeamInfo[] }>("GET", "/teams");
    return teams;
  }

  /** A team that the caller is a member of. Asks the service nothing. */
  static open(options: TeamOptions, teamId: string): TeamClient {
    return new TeamClient(teamId, options);
  }

  /** Makes a team with a fresh key; the caller is its admin. A lost answer does not make a second team. */
  static async create(options: TeamOptions, name: string): Promise<TeamClient> {
    const transport = new Transport(options);
    const { publicKey: owner_pubkey } = options.keys;
    const wrapped = await wrapKeyRing(await newKeyRing(), owner_pubkey);
    const body = { name, owner_pubkey, owner_wrapped_dek: wrapped };
    const create = () => transport.request<TeamInfo>("POST", "/teams", { body, once: true });
    const find = async () => {
      for (const team of await TeamClient.list(options)) {
        if (team.name !== name || team.rotation_seq > 0) continue;
        const grant = await transport.request<Grant>("GET", `/teams/${team.id}/grant`);
        if (grant.wrapped_dek === wrapped) return team;
      }
    };
    return new TeamClient((await sendOrFind(create, find)).id, options);
  }

  /** Joins with the token of an invitation's mail. The key follows when an admin grants it. */
  static async accept(options: ServiceOptions, token: string): Promise<Record<string, unknown>> {
    return await new Transport(options).request("POST", "/invitations/accept", { body: { token } });
  }

  /** Invites an address. Inviting it again replaces the invitation. */
  async invite(
    email: string,
    role: TeamRole = "read",
  ): Promise<{ invitation_id: string; expires_at: string }> {
    return await this.#request("POST", "/invitations", { email, role });
  }

  /** Who is in the team. */
  async members(): Promise<Member[]> {
    return (await this.#request<{ members: Member[] }>("GET", "/members")).members;
  }

  /**
   * Wraps the team's key for somebody and lets them in. Compare `fingerprint(publicKey)` with them first: who gets
   * another key wrapped is who reads. They read the whole memory, what was written before too.
   */
  async grant(member: { memberId: string; publicKey: string; role: TeamRole }): Promise<void> {
    await this.#withRing(async (ring) => {
      await this.#request("POST", "/grants", {
        member_id: member.memberId,
        member_pubkey: member.publicKey,
        wrapped_dek: await wrapKeyRing(ring, member.publicKey),
        role: member.role,
        rotation_seq: ring.epoch,
      });
    });
    await writeJson(this.#store, "members", {
      ...await this.#publicKeys(),
      [member.memberId]: member.publicKey,
    });
  }

  /**
   * Gives the team a new key, and with `revoke` removes a member. Returns the new epoch. After a crash in between
   * {@link resumeRotation} finishes it. Throws `missing_public_keys` for members that this client has not granted itself
   * and that `publicKeys` does not have.
   */
  rotate(options: RotationOptions = {}): Promise<number> {
    return this.#inTurn(async () => {
      const ring = await this.#openRing(true);
      const staying = (await this.members())
        .filter(({ member_id, has_grant }) => has_grant && member_id !== options.revoke)
        .map(({ member_id }) => member_id);
      const { memberId, keys } = this.#options;
      const known = { ...await this.#publicKeys(), ...options.publicKeys, [memberId]: keys.publicKey };
      await prepareRotation(this.#store, ring, staying, known, options);
      return await this.#commitRotation();
    });
  }

  /** Finishes the rotation that was prepared and not heard of. Returns the epoch, or undefined when there is none. */
  resumeRotation(): Promise<number | undefined> {
    return this.#inTurn(async () => {
      return await isRotationPending(this.#store) ? await this.#commitRotation() : undefined;
    });
  }

  /**
   * Appends to the shared memory. When an answer is lost the memory is read to see whether the entry is there; only then
   * it is sent again. Returns its number.
   */
  write(value: Json, options: { agentKey?: string } = {}): Promise<number> {
    return this.#inTurn(() =>
      this.#withRing(async (ring) => {
        const ciphertext_b64 = encodeBase64(await sealMemory(value, this.teamId, ring));
        const agent = options.agentKey === undefined ? {} : { agent_key: options.agentKey };
        const body = { ciphertext_b64, rotation_seq: ring.epoch, ...agent };
        const send = () => this.#request<{ seq: number }>("POST", "/memories", body, true);
        const find = async () => {
          for await (const stored of this.#stored(this.#lastSeq)) {
            if (stored.ciphertext_b64 === ciphertext_b64) return stored;
          }
        };
        const { seq } = await sendOrFind(send, find);
        this.#lastSeq = Math.max(this.#lastSeq, seq);
        return seq;
      })
    );
  }

  /**
   * The shared memory, oldest first, after a number. An entry that cannot be decrypted, or was made for another team or
   * epoch, comes with `error` in place of `value`. Throws {@link RollbackError} when entries that were seen are gone.
   */
  async *read(after = -1): AsyncGenerator<TeamMemory> {
    let last = after;
    let ring = await this.#openRing();
    for await (const stored of this.#stored(after)) {
      if (stored.seq <= last) throw new IntegrityError("lineage_broken", "The memory is out of order");
      if (stored.rotation_seq > ring.epoch) ring = await this.#openRing(true);
      last = stored.seq;
      yield await openMemory(stored, this.teamId, ring);
    }
    const seen = await readJson<number>(this.#store, "memory") ?? -1;
    if (last < seen) {
      throw new RollbackError(`Entry ${seen} was seen here before; the memory now ends at ${last}`);
    }
    if (last > seen) await writeJson(this.#store, "memory", last);
    this.#lastSeq = Math.max(this.#lastSeq, last);
  }

  /**
   * Exports the audit ledger, recomputes it, and compares it with how far it was seen before. Admins only. Throws
   * {@link IntegrityError} (`audit_broken`).
   */
  async verifyAudit(): Promise<ChainVerdict & { export: AuditExport }> {
    const exported = await this.#request<AuditExport>("GET", "/audit/export");
    const earlier = await readJson<AuditHead>(this.#store, "audit");
    const verdict = verifyAudit(exported, earlier);
    if (!verdict.valid) {
      const message = `The ledger is broken at entry ${verdict.brokenSeq}: ${verdict.reason}`;
      throw new IntegrityError("audit_broken", message, { details: { ...verdict } });
    }
    const { head_seq, head_hash } = exported;
    await writeJson(this.#store, "audit", { head_seq, head_hash });
    return { ...verdict, export: exported };
  }

  async #commitRotation(): Promise<number> {
    const send = (body: unknown) => this.#request("POST", "/rotate", body);
    const readWrapped = async () => (await this.#grant()).wrapped_dek;
    await commitRotation(this.#store, this.#options.memberId, send, readWrapped);
    return (await this.#openRing(true)).epoch;
  }

  async *#stored(after: number): AsyncGenerator<StoredMemory> {
    for (let [since, more] = [after, true]; more;) {
      const path = `/memories?since=${since}&limit=${PAGE}`;
      const page = await this.#request<{ memories: StoredMemory[]; has_more: boolean }>("GET", path);
      yield* page.memories;
      since = page.memories.at(-1)?.seq ?? since;
      more = page.has_more && page.memories.length > 0;
    }
  }

  /** Runs with the team's keys; once more with fresh ones when somebody has rotated meanwhile. */
  async #withRing<T>(run: (ring: KeyRing) => Promise<T>): Promise<T> {
    try {
      return await run(await this.#openRing());
    } catch (error) {
      if (!(error instanceof ConflictError) || error.code !== "stale_rotation") throw error;
      return await run(await this.#openRing(true));
    }
  }

  async #openRing(fresh = false): Promise<KeyRing> {
    if (this.#ring !== undefined && !fresh) return this.#ring;
    const { wrapped_dek, rotation_seq } = await this.#grant();
    const ring = await unwrapKeyRing(wrapped_dek, this.#options.keys);
    const seen = await readJson<number>(this.#store, "epoch") ?? 0;
    if (ring.epoch !== rotation_seq || ring.epoch < seen) {
      throw new RollbackError(
        `The key is of epoch ${ring.epoch}; ${Math.max(seen, rotation_seq)} was seen before`,
      );
    }
    if (ring.epoch > seen) await writeJson(this.#store, "epoch", ring.epoch);
    return this.#ring = ring;
  }

  async #publicKeys(): Promise<Record<string, string>> {
    return await readJson<Record<string, string>>(this.#store, "members") ?? {};
  }

  #grant(): Promise<Grant> {
    return this.#request<Grant>("GET", "/grant");
  }

  #request<T>(method: string, path: string, body?: unknown, once = false): Promise<T> {
    return this.#transport.request<T>(method, `/teams/${this.teamId}${path}`, { body, once });
  }
}

/** Sends what is not safe to repeat; when no answer comes, looks whether it was done before sending it again. */
async function sendOrFind<T>(send: () => Promise<T>, find: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 1;; tries++) {
    try {
      return await send();
    } catch (error) {
      if (!isTransient(error)) throw error;
      const found = await find();
      if (found !== undefined) return found;
      if (tries >= SEND_TRIES) throw error;
    }
  }
}
