/** The outside world as the functions see it: one interface for each thing, implemented beside this file. */

/** A value that a Postgres function takes: `Uint8Array` is `bytea`, arrays are Postgres arrays. */
export type SqlValue =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | readonly (string | null)[]
  | readonly number[]
  | readonly (Uint8Array | null)[];

/** Named arguments of a function in schema `api`. */
export type SqlArguments = Record<string, SqlValue>;

/**
 * The database: named functions of schema `api`, and nothing else.
 *
 * Every function there may be called twice with the same arguments, so a call whose answer was lost is repeated
 * (three tries in all). Refusals arrive as `ApiError` with their wire code; an unreachable or busy database as
 * `service_unavailable`; anything else as `internal_error`.
 */
export interface Database {
  /** Calls a function that returns one `jsonb` value (null for `void`). */
  call<T>(name: string, args: SqlArguments): Promise<T>;
  /** Calls a set-returning function. Columns named in `bytes` are `bytea` and arrive as `Uint8Array`. */
  rows<Row>(name: string, args: SqlArguments, bytes: readonly string[]): Promise<Row[]>;
}

/** Write-once storage of opaque bytes under names that the server makes. */
export interface BlobStore {
  /**
   * Stores `bytes` durably under a name never used for anything else; storing the same bytes again is fine.
   * Throws when it is not certain that the whole blob is kept.
   */
  put(name: string, bytes: Uint8Array): Promise<void>;
  /** The address from which anyone who knows the name downloads the blob. */
  publicUrl(name: string): string;
  /** Removes blobs; names that do not exist are fine. */
  remove(names: readonly string[]): Promise<void>;
  /** Resolves when the store answers. */
  ping(): Promise<void>;
}

/** One line of the log: never a token, ciphertext, e-mail address or client-chosen identifier. */
export type LogRecord =
  & { level: "info" | "warn" | "error"; event: string }
  & Record<
    string,
    string | number | boolean | null
  >;

/** A person who has signed in. `subject` is the issuer's name for them: any text. */
export interface Session {
  subject: string;
  email: string | null;
}

/** What a session JWT says. */
export interface SessionClaims extends Session {
  /**
   * The identity provider of single sign-on that the address comes from, as Supabase Auth calls it; null when the token
   * does not say which. Absent when the address is not from one.
   */
  ssoProvider?: string | null;
}

/** Tells who a session JWT belongs to. */
export interface SessionVerifier {
  /** Errors: `invalid_session`; `service_unavailable` when its key is not known and the issuer is away. */
  verify(token: string): Promise<SessionClaims>;
}

/** One mail to one person. */
export interface Mail {
  to: string;
  subject: string;
  text: string;
  html: string;
  /** Of mails with the same key only the first is delivered, for as long as the provider remembers it. */
  idempotencyKey: string;
  /** Header fields besides those that every mail has. */
  headers?: Readonly<Record<string, string>>;
}

/** Hands mails to whoever delivers them. */
export interface Mailer {
  /** Resolves when the mail has been taken. Throws `MailError`, with a code that names neither address nor text. */
  send(mail: Mail): Promise<void>;
}

/** The payment provider, as far as teams need it. */
export interface SeatProvider {
  /** Sets the number of seats of a subscription. Throws when the provider refuses or is away. */
  change(subscriptionId: string, seats: number): Promise<void>;
}

/** One delivery of a webhook. */
export interface HookDelivery {
  /** The `webhook-id`, the same at every attempt. */
  id: string;
  url: string;
  /** The body, exactly as it is signed. */
  payload: string;
  /** Each signs: `whsec_` and base64. */
  secrets: readonly string[];
}

/** What an endpoint made of a delivery. */
export interface HookAnswer {
  /** Null when there was no answer. */
  status: number | null;
  /** A short code; null when the endpoint took the delivery. */
  error: string | null;
  /** How long the endpoint asks to be left alone, at most a day. */
  retryAfterSeconds: number | null;
}

/** Sends to addresses that users registered. */
export interface WebhookSender {
  /** Why nothing may be sent to a URL, as a short code; undefined when it may. */
  findFault(url: string): Promise<string | undefined>;
  /** Checks the URL again, signs with the present time and sends. Never throws. */
  send(delivery: HookDelivery): Promise<HookAnswer>;
}

/** The headers of an event of the payment provider that say who sent it, as they came. */
export interface EventHeaders {
  id: string | undefined;
  timestamp: string | undefined;
  signature: string | undefined;
}

/** The payment provider, as far as the person who pays needs it. */
export interface PaymentProvider {
  /** Returns the address where the person pays for a product. Throws when the provider refuses or is away. */
  createCheckout(
    checkout: Session & { productId: string; successUrl: string },
  ): Promise<string>;
  /** Returns the address of the provider's portal for the person. Throws when the provider refuses or is away. */
  createPortalSession(portal: { subject: string; returnUrl: string }): Promise<string>;
  /** Returns the id of an event that comes from the provider. Errors: `invalid_webhook_signature`. */
  verifyEvent(headers: EventHeaders, body: ArrayBuffer): string;
}

/** An identity provider, as whoever issues sessions has to know it. */
export interface ProviderRegistration {
  metadataXml: string;
  domains: readonly string[];
  attributeMapping: Readonly<Record<string, unknown>>;
}

/** Identity providers: their metadata, and the place where they are registered. */
export interface ProviderDirectory {
  /** Fetches metadata from a user's address: the text, or a short code that says why not. Never throws. */
  fetchMetadata(url: string, bytesMax: number): Promise<{ xml: string } | { fault: string }>;
  /** Whether providers are registered anywhere. The calls below are only for when they are. */
  registers: boolean;
  /** Registers a provider and returns its id. Errors of all: `sso_provider_refused`, `sso_provider_unavailable`. */
  create(provider: ProviderRegistration): Promise<string>;
  /** Changes some of a provider. Resolves to whether it is there. */
  update(id: string, changes: Partial<ProviderRegistration>): Promise<boolean>;
  /** Removes a provider; one that is not there is fine. */
  remove(id: string): Promise<void>;
  /** The provider of an entity, and when it was registered. */
  find(entityId: string): Promise<{ id: string; createdAt: string } | undefined>;
}

/** The names of the internet. */
export interface NameService {
  /** The TXT records of a name, each as one text; none when it has none. Errors: `dns_unavailable`. */
  findTexts(name: string): Promise<string[]>;
}

/** Everything that reaches outside the process. */
export interface Platform {
  db: Database;
  blobs: BlobStore;
  sessions: SessionVerifier;
  seats: SeatProvider;
  payments: PaymentProvider;
  mailer: Mailer;
  hooks: WebhookSender;
  providers: ProviderDirectory;
  names: NameService;
  now(): Date;
  log(record: LogRecord): void;
  /** Keeps the process alive until `work` is done, without making the response wait for it. */
  background(work: Promise<void>): void;
}
